// The key: asked for when the server wants one, kept as long as the page is open.

import { key } from "./api.js";
import { el, field } from "./dom.js";

/** A form for the key; `entered` is called when it is kept. */
export function keyForm(error, entered) {
  const input = field("Key", { type: "password", name: "key", required: true, spellcheck: "false" });
  const wasGiven = key.get() !== null;
  const form = el(
    "form",
    { class: "panel narrow", onsubmit: (event) => keep(event, entered) },
    el("h1", { tabindex: "-1" }, "This server asks for a key"),
    el("p", { class: "muted" }, "It stays in this tab, and is sent to this server alone."),
    wasGiven ? el("p", { class: "notice bad", role: "alert" }, error.problem.what) : null,
    input,
    el("button", { class: "primary", type: "submit" }, "Continue"),
  );
  return { node: form, input: input.querySelector("input") };
}

function keep(event, entered) {
  event.preventDefault();
  key.set(new FormData(event.target).get("key").trim());
  entered();
}
