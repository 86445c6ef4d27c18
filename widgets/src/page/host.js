/* What the host wants: its theme, language and time zone, and to know how tall the card is. */

import { guardContrast } from "./contrast.js";

const darkly = window.matchMedia("(prefers-color-scheme: dark)");

/** Take over the host's theme and safe area, and the language that is spoken. */
export function wear(context, { locale, direction }) {
  const root = document.documentElement;
  root.dataset.theme = context.theme ?? (darkly.matches ? "dark" : "light");
  root.dataset.mode = context.displayMode ?? "inline";
  Object.assign(root, { lang: locale, dir: direction });
  for (const [name, value] of Object.entries(context.styles?.variables ?? {})) {
    if (name.startsWith("--") && value) root.style.setProperty(name, value);
  }
  guardContrast(root);
  const { top = 0, right = 0, bottom = 0, left = 0 } = context.safeAreaInsets ?? {};
  document.body.style.margin = `${top}px ${right}px ${bottom}px ${left}px`;
}

/** Report the real size now and whenever it changes; heights are real ones on the root, never a share of the frame. */
export function reportSize(notify) {
  let before = "";
  const report = () => {
    const box = document.documentElement.getBoundingClientRect();
    const size = { width: Math.ceil(box.width), height: Math.ceil(box.height) };
    const now = `${size.width}x${size.height}`;
    if (now !== before) notify("ui/notifications/size-changed", size);
    before = now;
  };
  const observer = new ResizeObserver(report);
  observer.observe(document.documentElement);
  report();
  return () => observer.disconnect();
}

/** Whether the host lets a card call tools. */
export function canCall({ bridge }) {
  return bridge.capabilities.serverTools !== undefined;
}

/** A clock that follows the server's: `hear` its `now` from an answer that just came. */
export function serverClock() {
  let ahead = 0;
  return {
    now: () => Date.now() + ahead,
    hear(text) {
      const difference = Date.parse(text) - Date.now();
      ahead = Math.abs(difference) > 2_000 ? difference : 0;
    },
  };
}
