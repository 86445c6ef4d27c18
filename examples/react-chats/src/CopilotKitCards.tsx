/* Cards in a chat of CopilotKit: put this anywhere below its provider. */

import { useRenderTool } from "@copilotkit/react-core/v2/headless";
import { z } from "zod";
import type { Act } from "../../react-card/src/actions";
import { fromRenderedCall } from "../../react-card/src/answer";
import { DuetimeCard } from "../../react-card/src/DuetimeCard";
import { TOOLS } from "./tools";

const parameters = z.looseObject({ title: z.string().optional() });

export function CopilotKitCards({ act }: { act: Act }) {
  return [...TOOLS].map((name) => <Cards key={name} name={name} act={act} />);
}

function Cards({ name, act }: { name: string; act: Act }) {
  useRenderTool({ name, parameters, render: (call) => <DuetimeCard answer={fromRenderedCall(call)} act={act} /> });
  return null;
}
