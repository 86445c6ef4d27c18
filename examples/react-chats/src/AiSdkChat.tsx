/* A chat of the Vercel AI SDK: its messages, with a card in place of each call of a tool of Duetime. */

import { useChat } from "@ai-sdk/react";
import { getToolName, isToolUIPart, type UIMessage } from "ai";
import { fromToolPart } from "../../react-card/src/answer";
import type { Act } from "../../react-card/src/actions";
import { DuetimeCard } from "../../react-card/src/DuetimeCard";
import { TOOLS } from "./tools";

/** It sends to `/api/chat`, which `route.ts` answers. */
export function AiSdkChat({ act }: { act: Act }) {
  const { messages, sendMessage, status, error } = useChat();
  return (
    <section aria-label="Vercel AI SDK">
      {messages.map((message) => <Message key={message.id} message={message} act={act} />)}
      {error && <p role="alert">{error.message}</p>}
      <button type="button" disabled={status !== "ready"} onClick={() => void sendMessage({ text: "Remind me to call John" })}>
        Remind me to call John
      </button>
    </section>
  );
}

function Message({ message, act }: { message: UIMessage; act: Act }) {
  return (
    <>
      {message.parts.map((part, at) => {
        if (part.type === "text") return <p key={at}>{part.text}</p>;
        if (isToolUIPart(part) && TOOLS.has(getToolName(part))) return <DuetimeCard key={at} answer={fromToolPart(part)} act={act} />;
        return null;
      })}
    </>
  );
}
