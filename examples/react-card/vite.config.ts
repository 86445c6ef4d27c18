import { defineConfig } from "vite";

const server = process.env["DUETIME_SERVER"] ?? "http://127.0.0.1:8787";

export default defineConfig({
  server: {
    fs: { allow: ["../.."] }, // the demo reads the published schemas, which lie outside this folder
    proxy: { "/v1": { target: server, changeOrigin: true, headers: { Origin: server } } },
  },
});
