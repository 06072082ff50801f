#include "server/docs_page.h"

namespace quire {

std::string_view docs_page() {
  return R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Quire API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
summary{cursor:pointer;padding:.4rem;border:1px solid #ccc;border-radius:4px;margin:.3rem 0}
code,pre,textarea{font:13px/1.4 ui-monospace,monospace}
.m{display:inline-block;width:4rem;font-weight:bold}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
td,th{border-top:1px solid #ddd;padding:.2rem .4rem;text-align:left;vertical-align:top}
textarea{width:100%;height:8rem;box-sizing:border-box}
pre{background:#f4f4f4;padding:.5rem;overflow:auto;max-height:24rem;white-space:pre-wrap}
</style></head><body>
<h1>Quire API</h1><p id="about"></p>
<label>API key <input id="key" type="password" autocomplete="off"></label>
<div id="list"></div>
<script>
"use strict";
const make = (tag, text, parent) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
};
const kindOf = s => {
  if (s.enum) return s.enum.filter(v => v !== null).map(v => JSON.stringify(v)).join(" | ");
  if ("const" in s) return JSON.stringify(s.const);
  const alternatives = s.anyOf ? s.anyOf.map(kindOf).filter(k => k !== "null").join(" | ") : "";
  let t = [].concat(s.type || []).filter(k => k !== "null").join(" | ") || alternatives;
  if (s.items) t += " of " + kindOf(s.items);
  const low = s.minimum ?? s.exclusiveMinimum;
  if (low !== undefined || s.maximum !== undefined)
    t += " " + (s.exclusiveMinimum !== undefined ? ">" : "≥") + (low ?? "-∞") +
         (s.maximum !== undefined ? " ≤" + s.maximum : "");
  return t;
};
const example = path => {
  if (path.includes("chat")) return {messages: [{role: "user", content: "Hello!"}], max_tokens: 32};
  if (path.includes("embeddings")) return {input: "Hello!"};
  if (path.endsWith("/detokenize")) return {tokens: [1, 2, 3]};
  return {prompt: "Once upon a time", ...(path.includes("tokenize") ? {} : {max_tokens: 32})};
};
async function call(path, method, body, out) {
  out.textContent = "…";
  const headers = {};
  if (body !== null) headers["Content-Type"] = "application/json";
  const key = document.getElementById("key").value;
  if (key) headers.Authorization = "Bearer " + key;
  try {
    const reply = await fetch("." + path, {method, headers, body: body === null ? undefined : body});
    out.textContent = reply.status + "\n";
    const reader = reply.body.getReader(), decoder = new TextDecoder();
    for (let part; !(part = await reader.read()).done;)
      out.textContent += decoder.decode(part.value, {stream: true});
  } catch (error) { out.textContent = String(error); }
}
fetch("openapi.json").then(r => r.json()).then(doc => {
  document.getElementById("about").textContent = "Version " + doc.info.version;
  for (const [path, item] of Object.entries(doc.paths)) for (const method of ["get", "post"]) {
    const op = item[method];
    if (!op) continue;
    const box = make("details", undefined, document.getElementById("list"));
    const head = make("summary", undefined, box);
    make("span", method.toUpperCase(), head).className = "m";
    make("code", path, head);
    head.append(" " + op.summary);
    const content = op.requestBody && op.requestBody.content["application/json"];
    if (content) {
      const schema = doc.components.schemas[content.schema.$ref.split("/").pop()];
      const table = make("table", undefined, box), top = make("tr", undefined, table);
      for (const title of ["field", "takes", "default", "", "also in"]) make("th", title, top);
      for (const [name, s] of Object.entries(schema.properties)) {
        const row = make("tr", undefined, table);
        make("code", name + ((schema.required || []).includes(name) ? " *" : ""), make("td", undefined, row));
        make("td", kindOf(s), row);
        make("td", s.default === undefined ? "" : JSON.stringify(s.default), row);
        make("td", s.description || "", row);
        make("td", (s["x-also-in"] || []).join(", "), row);
      }
    }
    let body = null;
    if (content) { body = make("textarea", undefined, box); body.value = JSON.stringify(example(path), null, 2); }
    const button = make("button", "Send", box), out = make("pre", "", box);
    button.onclick = () => {
      let target = path;
      if (path.includes("{id}")) target = path.replace("{id}", encodeURIComponent(prompt("id") || ""));
      call(target, method.toUpperCase(), body && body.value, out);
    };
  }
});
</script></body></html>
)html";
}

}  // namespace quire
