// What windows, periods and instants are called.

const FORM = /^(?:(.+)=)?((all|hour|day|week|month|quarter|year|rolling|decay)(?::(.+))?)$/;
const UNITS = { s: "second", m: "minute", h: "hour", d: "day" };

/** The windows of a board: `name` as the API knows it, `label` for people, `type`. */
export function windowsOf(board) {
  const windows = board.windows.map(windowOf);
  const labels = windows.map((window) => window.label);
  const isTwice = (label) => labels.indexOf(label) !== labels.lastIndexOf(label);
  return windows.map((window) => (isTwice(window.label) ? { ...window, label: window.name } : window));
}

function windowOf(text) {
  const [, ownName, form, type, options = ""] = FORM.exec(text) ?? [null, text, text, "all"];
  return { name: ownName ?? form, label: label(ownName, type, options), type };
}

function label(ownName, type, options) {
  const span = type === "rolling" ? options.split("/")[0] : null;
  if (ownName && ownName !== span) return ownName;
  if (type === "decay") return ownName ?? `Half in ${spanText(options)}`;
  if (span) return `Last ${spanText(span)}`;
  return type === "all" ? "All time" : type[0].toUpperCase() + type.slice(1);
}

function spanText(span) {
  const [, count, unit] = /^(\d+)([smhd])$/.exec(span) ?? [];
  if (!unit) return span;
  return count === "1" ? UNITS[unit] : `${count} ${UNITS[unit]}s`;
}

export function titleOf(board) {
  return board.title || board.name;
}

const instant = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

/** An instant as the clock of the reader shows it. */
export function instantText(ms) {
  return instant.format(new Date(Number(ms)));
}

/** The link to a board, with what is given of `window`, `period` and `member`. */
export function linkTo(board, given = {}) {
  const query = Object.entries(given).filter(([, value]) => value);
  const path = `#/boards/${encodeURIComponent(board)}`;
  return query.length ? `${path}?${new URLSearchParams(query)}` : path;
}
