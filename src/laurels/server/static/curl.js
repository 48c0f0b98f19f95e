// A curl command for each endpoint, with request bodies that can be sent unchanged.

const EVENT = { member: "alice", value: 120 };
const QUERIES = {
  around: "member=alice&radius=5",
  standing: "member=alice&to_rank=10",
  rank: "member=alice",
  needed: "member=alice&rank=10",
  card: "member=alice&to_rank=10",
  at_rank: "rank=1",
  score_at_percentile: "percent=90",
  range: "low=50&high=150",
  count: "low=50",
  periods: "window=day",
  position: "source=orders",
  scopes: "labels=room",
  top: "limit=10",
  live: "window=day&limit=10",
};
const BODIES = {
  create: { title: "Gifts", windows: ["all", "day"] },
  change: { title: "Gifts of the season" },
  scores: EVENT,
  scores_of_boards: [{ board: "gifts", ...EVENT }],
  set: EVENT,
  set_data: { member: "alice", data: { team: "red" } },
  remove: { member: "alice" },
  hide: { member: "alice", reason: "scripted gifts" },
  show: { member: "alice" },
  hide_everywhere: { member: "alice", reason: "scripted gifts" },
  show_everywhere: { member: "alice" },
  erase: { member: "alice", reason: "asked for it by mail" },
  standings: ["alice", "bob"],
  ranks: ["alice", "bob"],
  create_key: { name: "page", scope: "read", boards: ["*"] },
  create_token: { boards: ["gifts"], seconds: 3600 },
};

/** Returns the command for an operation of the OpenAPI document. */
export function curlLine(method, path, operation, origin) {
  const verb = operation.operationId;
  const filled = path.replace("{board}", "gifts").replace("{name}", "page");
  const query = QUERIES[verb] ? `?${QUERIES[verb]}` : "";
  const words = ["curl", ["live", "export", "watch_changes"].includes(verb) ? "-N" : null, flag(method, operation)];
  words.push(`'${origin}${filled}${query}'`);
  if (method !== "get") words.push("-H 'Content-Type: application/json'");
  if (operation.requestBody) words.push(`-d '${JSON.stringify(bodyOf(verb, path))}'`);
  return words.filter(Boolean).join(" ");
}

function flag(method, operation) {
  const isPlain = method === "get" || (method === "post" && operation.requestBody);
  return isPlain ? null : `-X ${method.toUpperCase()}`;
}

function bodyOf(verb, path) {
  return path === "/v1/scores" ? BODIES.scores_of_boards : (BODIES[verb] ?? {});
}
