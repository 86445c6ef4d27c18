import { useState } from "react";
import type { Act } from "./actions";
import { read, type Answer } from "./answer";
import { DuetimeCard } from "./DuetimeCard";
import type { Row, TaskPage } from "./payloads";
import { lookOf, moment } from "./words";

interface Props {
  page: TaskPage;
  act?: Act | undefined;
}

/** A page of tasks; a row opens the card of its task in place. */
export function TaskList({ page, act }: Props) {
  const counts = Object.entries(page.counts).filter(([, count]) => count);
  return (
    <div className="duetime" role="group" aria-label="Tasks">
      <p className="dt-line">
        {counts.map(([state, count]) => <span key={state} className="dt-quiet">{count} {lookOf({ state }).word.toLowerCase()}</span>)}
      </p>
      {page.overdue && <p className="dt-notice dt-warning">{page.overdue}</p>}
      {page.tasks.length === 0 && <p>No tasks. Ask in words to be reminded of something.</p>}
      <ul>{page.tasks.map((row) => <Line key={`${row.id} ${row.when}`} row={row} act={act} />)}</ul>
      {page.cursor && <p className="dt-quiet">There are more: ask for the next page.</p>}
    </div>
  );
}

function Line({ row, act }: { row: Row; act: Act | undefined }) {
  const [answer, setAnswer] = useState<Answer>();
  const { word, tone, sign } = lookOf(row);

  async function toggle(): Promise<void> {
    if (!act || answer) return setAnswer(undefined);
    setAnswer({ kind: "loading" });
    try {
      setAnswer(read(await act({ name: "get_task", arguments: { task_id: row.id } })));
    } catch (error) {
      setAnswer({ kind: "refused", text: error instanceof Error ? error.message : "Duetime cannot be reached." });
    }
  }

  return (
    <li>
      <p className="dt-row">
        {act
          ? <button type="button" className="dt-title" aria-expanded={answer !== undefined} onClick={toggle} dir="auto">{row.title}</button>
          : <span className="dt-title" dir="auto">{row.title}</span>}
        <span className={`dt-state dt-${tone}`}><span aria-hidden="true">{sign}</span> {word}</span>
        <time className="dt-quiet" dateTime={row.when}>{moment(row.when)}</time>
      </p>
      {row.step && <p className="dt-quiet" dir="auto">{row.chain}, {row.step}</p>}
      {row.blocked && <p className="dt-danger" dir="auto">{row.why}</p>}
      {row.last_run?.summary && <p className="dt-danger" dir="auto">{row.last_run.summary}</p>}
      {answer && <DuetimeCard answer={answer} act={act} />}
    </li>
  );
}
