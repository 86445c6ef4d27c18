import { useId, useState, type ReactNode } from "react";
import { buttonsOf, type Act, type Button } from "./actions";
import { read } from "./answer";
import { useNow } from "./clock";
import { isChain, shownOf, type Shown, type Task } from "./payloads";
import { Steps } from "./Steps";
import { lookOf, moment, relative } from "./words";

interface Props {
  task: Task;
  act?: Act | undefined;
}

/** One task. After a button was pressed it shows what the tool answered, until the chat has something newer. */
export function TaskCard({ task: given, act }: Props) {
  const [answered, setAnswered] = useState<Task>();
  const [pressed, setPressed] = useState<string>();
  const [failure, setFailure] = useState<string>();
  const now = useNow();
  const heading = useId();
  const task = shownOf(answered?.id === given.id && answered.revision >= given.revision ? answered : given);

  async function press({ key, call }: Button): Promise<void> {
    if (!act || pressed) return;
    setPressed(key);
    setFailure(undefined);
    try {
      const answer = read(await act(call));
      if (answer.kind === "task") setAnswered(answer.task);
      else setFailure(answer.kind === "refused" ? answer.text : "Duetime's answer cannot be read.");
    } catch (error) {
      setFailure(error instanceof Error ? error.message : "Duetime cannot be reached.");
    } finally {
      setPressed(undefined);
    }
  }

  return (
    <article className="duetime" aria-labelledby={heading}>
      <Head task={task} heading={heading} now={now} />
      {failure && <p className="dt-notice dt-danger" role="alert">{failure}</p>}
      {task.damaged && <p className="dt-notice dt-danger">This task is damaged and can only be cancelled.</p>}
      <Held task={task} now={now} />
      {task.warnings?.map((warning) => <p key={warning} className="dt-notice dt-warning">{warning}</p>)}
      {isChain(task) && <Steps chain={task.chain} />}
      <Facts task={task} />
      {act && <Bar buttons={buttonsOf(task, now)} pressed={pressed} press={press} />}
    </article>
  );
}

function Head({ task, heading, now }: { task: Task; heading: string; now: number }) {
  const urgent = task.priority && task.priority !== "normal";
  return (
    <header>
      <p className="dt-line">
        <State task={task} />
        {urgent && <span className="dt-quiet">{task.priority}</span>}
      </p>
      <p className="dt-title" id={heading} dir="auto">{task.title}</p>
      {task.message && <p dir="auto">{task.message}</p>}
      <p>
        <time dateTime={task.when.utc}>{moment(task.when.utc)}</time>{" "}
        <span className="dt-quiet">{relative(task.when.utc, now)}</span>
      </p>
    </header>
  );
}

/** What the user is asked, or what a blocked task misses: it stands above all else. */
function Held({ task: { waits = [] }, now }: { task: Task; now: number }) {
  const asked = waits.filter(({ kind }) => kind === "approval");
  const questions = new Map(asked.map((wait) => [wait.title ?? "May this run?", endOf(wait, now)]));
  const missing = waits.filter(({ kind }) => kind === "blocked").map(({ after }) => after);
  return (
    <>
      {[...questions].map(([question, end]) => (
        <div key={question} className="dt-notice dt-warning">
          <p dir="auto">{question}</p>
          {end && <p className="dt-quiet">{end}</p>}
        </div>
      ))}
      {missing.map((reason) => <p key={reason} className="dt-notice dt-danger" dir="auto">It waits until this is there: {reason}</p>)}
    </>
  );
}

/** Until when a question is open, and what follows without an answer. */
function endOf({ until, goes_on: goesOn, default_answer: answer }: NonNullable<Task["waits"]>[number], now: number): string {
  if (!until) return "";
  const then = answer ? `counts as ${answer === "approve" ? "approved" : "rejected"} and goes on` : goesOn ? "goes ahead" : "does not run";
  return `Ends ${relative(until, now)}, then ${then}`;
}

/** The state as sign, word and colour; screen readers announce its change. */
function State({ task }: { task: Task }) {
  const { word, tone, sign } = lookOf(task);
  return (
    <span className={`dt-state dt-${tone}`} role="status">
      <span aria-hidden="true">{sign}</span> {word}
    </span>
  );
}

function Facts({ task }: { task: Shown }) {
  const { repeat, series, deadline, progress, attempt = 1, last_run: last, effect, chain } = task;
  return (
    <dl>
      <Fact name="Chain">{chain?.step && `${chain.title}, ${chain.step}: ${chain.done} of ${chain.of} steps done`}</Fact>
      <Fact name="Repeats">{repeat && `${repeat.text}${series ? `, next ${moment(series.utc)}` : ""}${repeat.approval ? ", and asks before each run" : ""}`}</Fact>
      <Fact name="Deadline">{deadline && `${moment(deadline.utc)}${deadline.missed ? ", missed" : ""}`}</Fact>
      <Fact name="Progress">{progress && <Progress {...progress} />}</Fact>
      <Fact name="Waits for">{waitsOf(task).join("; ")}</Fact>
      <Fact name="Attempt">{attempt > 1 && `${attempt} of ${task.max_attempts}`}</Fact>
      <Fact name="Last run">{last && (last.summary ?? lookOf(last).word)}</Fact>
      <Fact name="Not as expected">{last?.unverified}</Fact>
      <Fact name="Note">{effect}</Fact>
    </dl>
  );
}

/** The reasons in the words of the server; what is said above already is left out, but for until when it waits. */
function waitsOf({ waiting_for: reasons = [], waits = [] }: Task): string[] {
  return reasons.filter((_, at) => waits[at]?.kind !== "blocked");
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (!children) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd dir="auto">{children}</dd>
    </div>
  );
}

function Progress({ part, unknown, text }: { part: number; unknown?: true; text?: string }) {
  if (unknown) return <>{text}</>;
  return (
    <>
      <progress aria-label="Progress" value={part} /> {text ?? `${Math.round(part * 100)} %`}
    </>
  );
}

interface BarProps {
  buttons: Button[];
  pressed: string | undefined;
  press: (button: Button) => void;
}

/** A button that waits keeps the focus, which `disabled` would take away. */
function Bar({ buttons, pressed, press }: BarProps) {
  if (buttons.length === 0) return null;
  return (
    <div className="dt-bar" role="group" aria-label="Actions">
      {buttons.map((button) => (
        <button key={button.key} type="button" aria-disabled={pressed !== undefined} onClick={() => press(button)}>
          {button.key === pressed ? `${button.label}…` : button.label}
        </button>
      ))}
    </div>
  );
}
