import { defineConfig } from "vite";

export default defineConfig({
  resolve: { dedupe: ["react", "react-dom"] }, // the card lies in the folder next to this one, which need not be installed
  server: { fs: { allow: ["../.."] } },
});
