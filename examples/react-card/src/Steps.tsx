import type { Chain, Step } from "./payloads";
import { lookOf } from "./words";

const MAX_SHOWN = 20;

/** How far a chain is, and each of its steps: its state as sign and word, and why it failed. */
export function Steps({ chain: { done, of, failed, steps } }: { chain: Chain["chain"] }) {
  return (
    <div className={failed ? "dt-danger" : "dt-info"}>
      <p>
        <progress aria-label="Steps done" value={done} max={of || 1} /> {done} of {of} steps done
      </p>
      <ol className="dt-steps">{steps.slice(0, MAX_SHOWN).map((step) => <Line key={step.id} step={step} />)}</ol>
      {steps.length > MAX_SHOWN && <p className="dt-quiet">and {steps.length - MAX_SHOWN} more</p>}
    </div>
  );
}

function Line({ step }: { step: Step }) {
  const { word, tone, sign } = lookOf({ state: step.state, action: step.action });
  return (
    <li>
      <span dir="auto">{step.title ?? step.name}</span>{" "}
      <span className={`dt-state dt-${tone}`}><span aria-hidden="true">{sign}</span> {word}</span>
      {step.why && <p className="dt-why" dir="auto">{step.why}</p>}
    </li>
  );
}
