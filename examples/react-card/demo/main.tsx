/* Shows the examples of the published schemas, answers in other states, and the tasks of a server if there is one. */

import "./demo.css";
import { StrictMode, useEffect, useState, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import chain from "../../../docs/payloads/chain.json";
import list from "../../../docs/payloads/list.json";
import task from "../../../docs/payloads/task.json";
import { fromRenderedCall, fromToolPart, read, type Answer } from "../src/answer";
import { DuetimeCard } from "../src/DuetimeCard";
import { restAct } from "../src/rest";

const act = restAct("/v1");
const example = task.examples[0];
const HOSTILE = "<img src=x onerror=\"document.title='run'\"> [link](javascript:alert(1)) " + "w".repeat(80);

function Demo() {
  return (
    <main>
      <h1>Cards of Duetime in React</h1>
      <Live />
      {task.examples.map((payload, at) => <Example key={at} name={`Task ${at + 1}`} answer={read(payload)} />)}
      {chain.examples.map((payload, at) => <Example key={at} name={`Chain ${at + 1}`} answer={read(payload)} />)}
      {list.examples.map((payload, at) => <Example key={at} name={`List ${at + 1}`} answer={read(payload)} />)}
      <Example name="AI SDK, called" answer={fromToolPart({ state: "input-available", input: { title: "Call John" } })} />
      <Example name="AI SDK, answered" answer={fromToolPart({ state: "output-available", output: { structuredContent: example } })} />
      <Example name="AI SDK, failed" answer={fromToolPart({ state: "output-error", errorText: "The tool timed out." })} />
      <Example name="CopilotKit, answered" answer={fromRenderedCall({ status: "complete", result: JSON.stringify(example) })} />
      <Example name="Refused" answer={read({ isError: true, content: [{ type: "text", text: "when: '25:00' is no time of day." }] })} />
      <Example name="Damaged" answer={read({ ...example, damaged: true })} />
      <Example name="Running" answer={read({ ...example, title: "Export", action: "export", state: "running", effect: undefined, progress: { part: 0.4, text: "400 of 1,000 rows" } })} />
      <Example name="Extra run" answer={read({ ...example, repeat: { rule: "FREQ=DAILY", text: "every day at 09:00" }, deadline: { utc: "2026-11-24T18:00:00Z", local: "2026-11-24T11:00:00-07:00", text: "Tue 24 Nov 2026 11:00", type: "hard" }, extra_run: { state: "ready", when: { ...example?.when, utc: "2026-11-23T15:10:00Z" } } })} />
      <Example name="Overdue" answer={read({ ...example, when: { ...example?.when, utc: "2026-11-23T14:58:00Z" } })} />
      <Example name="Dry run" answer={read({ ...example, id: "dry-run" })} />
      <Example name="Unknown state" answer={read({ ...example, state: "postponed", a_later_part: {} })} />
      <Example name="Hostile" answer={read({ ...example, title: HOSTILE, message: HOSTILE })} />
      <Example name="Empty list" answer={read({ schema: "duetime.list/1", tasks: [], counts: {} })} />
      <Example name="Unreadable" answer={read("{")} />
    </main>
  );
}

/** The open tasks of the server that `DUETIME_SERVER` names, or the one task or chain that `?task=` names. */
function Live() {
  const [answer, setAnswer] = useState<Answer>({ kind: "loading" });
  useEffect(() => {
    const named = new URLSearchParams(location.search).get("task");
    fetch(named ? `/v1/tasks/${encodeURIComponent(named)}` : "/v1/tasks?state=open")
      .then((response) => response.json())
      .then((page) => setAnswer(read(page)), () => setAnswer({ kind: "refused", text: "No server: set DUETIME_SERVER to the address of one." }));
  }, []);
  return <Section name="Your tasks"><DuetimeCard answer={answer} act={act} /></Section>;
}

function Example({ name, answer }: { name: string; answer: Answer }) {
  return <Section name={name}><DuetimeCard answer={answer} act={act} /></Section>;
}

function Section({ name, children }: { name: string; children: ReactNode }) {
  return (
    <section aria-label={name}>
      <h2>{name}</h2>
      {children}
    </section>
  );
}

createRoot(document.getElementById("root")!).render(<StrictMode><Demo /></StrictMode>);
