// A search from TypeScript: `npm install && npm run build`, then `npm start` with CHORALE_URL and CHORALE_KEY set.
// The types come from api/openapi.json.
import createClient from "openapi-fetch";
import type { paths } from "./chorale.js";

const chorale = createClient<paths>({
  baseUrl: process.env.CHORALE_URL ?? "http://127.0.0.1:8000",
  headers: { Authorization: `Bearer ${process.env.CHORALE_KEY}` },
});

const { data, error } = await chorale.POST("/v1/searches", {
  body: { questions: [{ text: "how is bread baked?" }], top_k: 3 },
});
if (error) throw new Error(`${error.code}: ${error.detail}`);
if ("questions" in data) {
  for (const hit of data.questions?.[0]?.hits ?? []) console.log(hit.rank, hit.document_id);
} else {
  console.log("not ended yet:", data.request_id);
}

const missing = await chorale.GET("/v1/jobs/{job_id}", { params: { path: { job_id: "unknown" } } });
console.log(missing.error?.status, missing.error?.code);
