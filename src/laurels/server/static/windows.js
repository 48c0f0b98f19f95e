// The names of windows, periods and instants.

import { read } from "./exact.js";

const FORM = /^(?:(.+)=)?((all|hour|day|week|month|quarter|year|rolling|decay)(?::(.+))?)$/;
const PRIZES = /[:,]prizes=(?=\{)/;
const ARCHIVE = /(?:^|,)archive=/;
const UNITS = { s: "second", m: "minute", h: "hour", d: "day" };

/**
 * Returns the windows of a board: `name` for the API, `label` for display, `type`, `zone`, `prizes`
 * or null, and `closes`: whether closed periods are archived.
 */
export function windowsOf(board) {
  const windows = board.windows.map((text) => windowOf(text, board.tz));
  const labels = windows.map((window) => window.label);
  const isTwice = (label) => labels.indexOf(label) !== labels.lastIndexOf(label);
  return windows.map((window) => (isTwice(window.label) ? { ...window, label: window.name } : window));
}

/** Parses the text of a window. The option `prizes` is JSON, and the last one. */
function windowOf(written, boardZone) {
  const cut = PRIZES.exec(written);
  const text = cut ? written.slice(0, cut.index) : written;
  const prizes = cut ? read(written.slice(cut.index + cut[0].length)) : null;
  const [, ownName, form, type, options = ""] = FORM.exec(text) ?? [null, text, text, "all"];
  const zone = /(?:^|,)tz=([^,]+)/.exec(options)?.[1] ?? boardZone;
  const isMeasured = type === "rolling" || type === "decay";
  const name = ownName ?? (isMeasured ? `${type}:${options.split(",")[0]}` : type);
  const closes = prizes !== null || ARCHIVE.test(options);
  return { name, label: label(ownName, type, options), type, zone, prizes, closes };
}

function label(ownName, type, options) {
  const span = type === "rolling" ? options.split("/")[0] : null;
  if (ownName && ![span, type, `${type}:${options.split(",")[0]}`].includes(ownName)) return ownName;
  if (type === "decay") return `Half in ${spanText(options.split(",")[0])}`;
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

const INSTANT = {
  weekday: "short",
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  timeZoneName: "short",
};

/** Formats an instant in a time zone, with the zone's name; by default in the reader's zone. */
export function instantText(ms, zone) {
  const date = new Date(Number(ms));
  try {
    return new Intl.DateTimeFormat("en-GB", { ...INSTANT, timeZone: zone }).format(date);
  } catch {
    return new Intl.DateTimeFormat("en-GB", { ...INSTANT, timeZone: "UTC" }).format(date);
  }
}

/** Decodes a part of an address; returns it unchanged if its encoding is invalid. */
export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the link to a board, with those of `window`, `period` and `member` that are set. */
export function linkTo(board, given = {}) {
  const query = Object.entries(given).filter(([, value]) => value);
  const path = `#/boards/${encodeURIComponent(board)}`;
  return query.length ? `${path}?${new URLSearchParams(query)}` : path;
}
