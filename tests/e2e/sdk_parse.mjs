// Structured `parse` and the streaming helper of OpenAI's JavaScript SDK, which is found from the working folder:
//   node sdk_parse.mjs URL
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const load = createRequire(process.cwd() + "/");
const OpenAI = load("openai").default;
const { makeParseableResponseFormat } = load("openai/lib/parser");

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const schema = {
  type: "object",
  properties: { city: { type: "string", pattern: "^[A-Z][a-z]{2,9}$" }, size: { type: "integer", minimum: 0 } },
  required: ["city", "size"],
  additionalProperties: false,
};
const response_format = makeParseableResponseFormat(
  { type: "json_schema", json_schema: { name: "place", strict: true, schema } },
  (text) => ({ ...JSON.parse(text), parsedHere: true }),
);
const request = {
  model, response_format, temperature: 0, max_tokens: 80,
  messages: [{ role: "user", content: "Name a place as JSON." }],
};
const whole = (await client.chat.completions.parse(request)).choices[0].message;
assert.match(whole.parsed.city, /^[A-Z][a-z]{2,9}$/);
assert.ok(Number.isInteger(whole.parsed.size) && whole.parsed.size >= 0);
assert.ok(whole.parsed.parsedHere);

const runner = client.chat.completions.stream(request);
let deltas = 0;
runner.on("content", () => deltas++);
const last = (await runner.finalChatCompletion()).choices[0].message;
assert.ok(deltas > 2);
assert.equal(last.content, whole.content);
assert.deepEqual(last.parsed, whole.parsed);
console.log("parse and stream agree");
