import { defineConfig } from "vite";

export default defineConfig({
  resolve: { dedupe: ["react", "react-dom"] }, // the card lies in the folder beside, which need not be installed
  server: { fs: { allow: ["../.."] } },
});
