// The API documentation, rendered from the server's OpenAPI document.

import { curlLine } from "./curl.js";
import { el, problemNotice, say } from "./dom.js";

const GROUPS = [
  ["Boards", (path) => /^\/v1\/boards(\/\{board\})?$/.test(path)],
  ["Live feed and export", (path) => /\/(live|export)$/.test(path)],
  ["Scores", (path, operation) => operation["x-scope"] === "write" || path.endsWith("/position")],
  ["Queries", (path) => path.startsWith("/v1/boards/")],
  ["Keys", (path) => /^\/v1\/(keys|tokens)/.test(path)],
  ["The store", () => true],
];
const ORDER = ["Boards", "Scores", "Queries", "Live feed and export", "Keys", "The store"];
const BESIDE = [
  ["/openapi.json", "this description, OpenAPI 3.1"],
  ["/healthz", "200 while the process answers"],
  ["/readyz", "200 while requests are accepted, 503 when writes fail or the server is shutting down"],
  ["/metrics", "figures in the Prometheus text format"],
];
const main = document.getElementById("main");
const contents = document.getElementById("contents");

/** Renders text that contains `code`. */
function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}

function slug(text) {
  return `part-${text.toLowerCase().replaceAll(" ", "-")}`;
}

function operationsOf(description) {
  return Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const [group] = GROUPS.find(([, holds]) => holds(path, operation));
      return { path, method, operation, group, id: `op-${operation.operationId}` };
    }),
  );
}

// Types

function nameOf(schema) {
  return schema.$ref?.split("/").at(-1);
}

/** Describes a type in words, with links from the names of objects. */
function typeOf(schema) {
  const name = nameOf(schema);
  if (name) return [el("a", { href: `#type-${name}` }, name)];
  if (schema.anyOf) return alternatives(schema.anyOf);
  if (schema.enum) return schema.enum.flatMap((value, i) => [i ? " or " : "", el("code", {}, JSON.stringify(value))]);
  if (schema.type === "array") return ["array of ", ...(schema.items ? typeOf(schema.items) : ["anything"])];
  if (schema.additionalProperties) return ["object of ", ...typeOf(schema.additionalProperties)];
  return [schema.type ?? "any JSON"];
}

function alternatives(schemas) {
  const isNumber = (schema) => schema.type === "integer" || schema.type === "number";
  const kept = schemas.filter((schema, i) => !isNumber(schema) || schemas.findIndex(isNumber) === i);
  const merged = schemas.filter(isNumber).length > 1;
  return kept.flatMap((schema, i) => [i ? " or " : "", ...(merged && isNumber(schema) ? ["number"] : typeOf(schema))]);
}

function defaultOf(schema) {
  return schema.default === undefined || schema.default === null ? null : el("code", {}, JSON.stringify(schema.default));
}

function table(heads, rows) {
  const head = el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows)));
}

function typeArticle([name, schema]) {
  const required = new Set(schema.required ?? []);
  const rows = Object.entries(schema.properties ?? {}).map(([field, kind]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("code", {}, field)),
      el("td", {}, typeOf(kind)),
      el("td", {}, required.has(field) ? "always" : (defaultOf(kind) ?? "may be left out")),
    ),
  );
  return el(
    "article",
    { class: "panel", id: `type-${name}` },
    el("h3", {}, name),
    schema.description ? el("p", { class: "muted" }, prose(schema.description.replace(/\s+/g, " "))) : null,
    rows.length ? table(["Field", "Type", "Present"], rows) : null,
  );
}

// Endpoints

function parameterTable(parameters) {
  const rows = parameters.map(({ name, in: place, required, schema }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("code", {}, name)),
      el("td", {}, place),
      el("td", {}, typeOf(schema)),
      el("td", {}, required ? "required" : (defaultOf(schema) ?? "optional")),
    ),
  );
  return [el("h3", {}, "Parameters"), table(["Name", "In", "Type", "Default"], rows)];
}

function bodyPart({ content }) {
  return [el("h3", {}, "Body"), el("p", {}, typeOf(Object.values(content)[0].schema), mediaTypes(content))];
}

function mediaTypes(content) {
  return el("span", { class: "muted" }, ` (${Object.keys(content).join(", ")})`);
}

function answersPart(responses) {
  const good = Object.entries(responses).filter(([status]) => status.startsWith("2"));
  const refused = Object.keys(responses).filter((status) => !status.startsWith("2"));
  const lines = good.map(([status, { content }]) => {
    const answer = content ? [...typeOf(Object.values(content)[0].schema), mediaTypes(content)] : ["nothing"];
    return el("p", {}, el("code", {}, status), " ", answer);
  });
  const problem = el("a", { href: "#type-Problem" }, "Problem");
  return [el("h3", {}, "Answers"), lines, el("p", { class: "muted" }, `${refused.join(", ")}: `, problem)];
}

function curlPart(line) {
  const code = el("pre", { tabindex: "0", "aria-label": "curl line" }, el("code", {}, line));
  return el("div", { class: "curl" }, code, el("button", { type: "button", onclick: () => copy(line, code) }, "Copy"));
}

async function copy(line, code) {
  try {
    await navigator.clipboard.writeText(line);
    say("Copied");
  } catch {
    getSelection().selectAllChildren(code);
    say("Selected: copy it with the keyboard");
  }
}

function operationArticle({ path, method, operation, id }) {
  return el(
    "article",
    { class: "panel", id },
    el(
      "h3",
      {},
      el("span", { class: "method", "data-method": method }, method.toUpperCase()),
      el("code", {}, path),
      el("span", { class: "badge" }, operation["x-scope"]),
    ),
    el("p", {}, prose(operation.description)),
    operation.parameters.length ? parameterTable(operation.parameters) : null,
    operation.requestBody ? bodyPart(operation.requestBody) : null,
    answersPart(operation.responses),
    curlPart(curlLine(method, path, operation, location.origin)),
  );
}

// The page

function section(title, ...children) {
  return el("section", { id: slug(title) }, el("h2", {}, title), children);
}

function errorTable(errors) {
  const rows = errors.map(({ code, status, meaning, advice, retryable }) =>
    el(
      "tr",
      { id: code },
      el("th", { scope: "row" }, el("a", { href: `#${code}` }, el("code", {}, code))),
      el("td", {}, String(status)),
      el("td", {}, prose(meaning)),
      el("td", {}, prose(advice), retryable ? el("b", {}, " May be sent again.") : null),
    ),
  );
  return table(["Code", "Status", "Meaning", "What to do"], rows);
}

function introduction({ info }) {
  return [
    el("h1", { tabindex: "-1" }, `${info.title} API`),
    el("p", { class: "muted" }, `Version ${info.version}. ${info.description}`),
    el(
      "p",
      {},
      prose(
        "Scores are JSON numbers, digit for digit; with several columns an array of them. Where keys are in use a " +
          "request has the header `Authorization: Bearer lk_…`; the permission that an endpoint needs is shown beside its path.",
      ),
    ),
  ];
}

function beside() {
  const rows = BESIDE.map(([path, meaning]) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, path)), el("td", {}, meaning)));
  return table(["GET", "Answers"], rows);
}

function contentsOf(operations) {
  const groups = ORDER.flatMap((group) => [
    el("a", { href: `#${slug(group)}` }, group),
    operations
      .filter((each) => each.group === group)
      .map(({ id, operation }) => el("a", { class: "ops", href: `#${id}` }, operation.operationId.replaceAll("_", " "))),
  ]);
  const rest = ["Beside the API", "Types", "Error codes"].map((title) => el("a", { href: `#${slug(title)}` }, title));
  return [...groups.flat(), ...rest];
}

function draw(description) {
  const operations = operationsOf(description);
  contents.replaceChildren(...contentsOf(operations));
  main.replaceChildren(
    ...introduction(description),
    ...ORDER.map((group) => section(group, operations.filter((each) => each.group === group).map(operationArticle))),
    section("Beside the API", beside()),
    section("Types", Object.entries(description.components.schemas).map(typeArticle)),
    section("Error codes", errorTable(description["x-errors"])),
  );
}

/** Scrolls to the target of the address, which exists only after the OpenAPI document was rendered. */
function goToHash() {
  const target = document.getElementById(location.hash.slice(1));
  if (!target) return;
  const fragment = location.hash;
  history.replaceState(null, "", location.pathname);
  location.replace(fragment);
}

async function start() {
  try {
    const response = await fetch("/openapi.json");
    draw(await response.json());
    goToHash();
  } catch (error) {
    main.replaceChildren(problemNotice(error));
  } finally {
    main.removeAttribute("aria-busy");
  }
}

start();
