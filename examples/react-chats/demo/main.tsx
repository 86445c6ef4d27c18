/* Both chats side by side, each with a route of your server. */

import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { HttpAgent } from "@ag-ui/client";
import { CopilotKitContext, CopilotKitCoreReact, EMPTY_SET } from "@copilotkit/react-core/v2/context";
import { useAgent, useCopilotKit, useRenderToolCall } from "@copilotkit/react-core/v2/headless";
import { restAct } from "../../react-card/src/rest";
import { AiSdkChat } from "../src/AiSdkChat";
import { CopilotKitCards } from "../src/CopilotKitCards";

const act = restAct("/v1");

function Demo() {
  const [copilotkit] = useState(() => new CopilotKitCoreReact({ agents__unsafe_dev_only: { default: new HttpAgent({ url: "/api/agent" }) } }));
  return (
    <main>
      <h1>Chats with the cards of Duetime</h1>
      <AiSdkChat act={act} />
      <CopilotKitContext.Provider value={{ copilotkit, executingToolCallIds: EMPTY_SET }}>
        <CopilotKitCards act={act} />
        <Chat />
      </CopilotKitContext.Provider>
    </main>
  );
}

function Chat() {
  const { agent } = useAgent();
  const { copilotkit } = useCopilotKit();
  const render = useRenderToolCall();
  const ask = () => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "Remind me to call Jane" });
    void copilotkit.runAgent({ agent });
  };
  return (
    <section aria-label="CopilotKit">
      <h2>CopilotKit</h2>
      <button type="button" onClick={ask}>Remind me to call Jane</button>
      {agent.messages.map((message) => (
        <div key={message.id}>
          {message.role === "assistant" && message.content}
          {message.role === "assistant" && message.toolCalls?.map((toolCall) => {
            const toolMessage = agent.messages.find((each) => each.role === "tool" && each.toolCallId === toolCall.id);
            return <div key={toolCall.id}>{render(toolMessage?.role === "tool" ? { toolCall, toolMessage } : { toolCall })}</div>;
          })}
        </div>
      ))}
    </section>
  );
}

createRoot(document.getElementById("root")!).render(<StrictMode><Demo /></StrictMode>);
