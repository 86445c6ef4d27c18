/* Both chats side by side; a call that was answered stands in for a run of an agent of CopilotKit. */

import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { CopilotKitContext, CopilotKitCoreReact, EMPTY_SET } from "@copilotkit/react-core/v2/context";
import { useRenderToolCall } from "@copilotkit/react-core/v2/headless";
import task from "../../../docs/payloads/task.json";
import { restAct } from "../../react-card/src/rest";
import { AiSdkChat } from "../src/AiSdkChat";
import { CopilotKitCards } from "../src/CopilotKitCards";

const act = restAct("/v1");
const CALL = { id: "1", type: "function", function: { name: "schedule_task", arguments: '{"title":"Call John"}' } } as const;
const RESULT = { id: "2", role: "tool", toolCallId: "1", content: JSON.stringify(task.examples[0]) } as const;

function Demo() {
  const [copilotkit] = useState(() => new CopilotKitCoreReact({}));
  return (
    <main>
      <h1>Chats with the cards of Duetime</h1>
      <AiSdkChat act={act} />
      <CopilotKitContext.Provider value={{ copilotkit, executingToolCallIds: EMPTY_SET }}>
        <CopilotKitCards act={act} />
        <Answered />
      </CopilotKitContext.Provider>
    </main>
  );
}

function Answered() {
  const render = useRenderToolCall();
  return <section aria-label="CopilotKit">{render({ toolCall: CALL, toolMessage: RESULT })}</section>;
}

createRoot(document.getElementById("root")!).render(<StrictMode><Demo /></StrictMode>);
