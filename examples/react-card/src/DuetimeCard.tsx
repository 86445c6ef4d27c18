import "./card.css";
import type { Act } from "./actions";
import type { Answer } from "./answer";
import { TaskCard } from "./TaskCard";
import { TaskList } from "./TaskList";

interface Props {
  answer: Answer;
  /** Without it a card has no buttons, and the rows of a list do not open. */
  act?: Act | undefined;
}

/** Whatever a tool of Duetime answered, or has not answered yet. */
export function DuetimeCard({ answer, act }: Props) {
  switch (answer.kind) {
    case "task":
      return <TaskCard task={answer.task} act={act} />;
    case "list":
      return <TaskList page={answer.page} act={act} />;
    case "loading":
      return <Loading title={answer.title} />;
    case "refused":
      return <Failure heading="That did not work" text={answer.text} />;
    case "unreadable":
      return <Failure heading="This answer cannot be shown" text="It is not one that this card knows. Ask for the task in words." />;
  }
}

function Loading({ title }: { title: string | undefined }) {
  return (
    <div className="duetime" role="status">
      <p className="dt-quiet">{title ? "Scheduling…" : "Reading…"}</p>
      {title ? <p className="dt-title">{title}</p> : <span className="dt-bone" />}
      <span className="dt-bone dt-short" />
    </div>
  );
}

function Failure({ heading, text }: { heading: string; text: string }) {
  return (
    <div className="duetime dt-danger" role="alert">
      <p className="dt-title">{heading}</p>
      <p>{text}</p>
    </div>
  );
}
