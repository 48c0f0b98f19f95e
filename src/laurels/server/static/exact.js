// Numbers without rounding. Parsing a JSON number as a binary float loses digits, so here a number
// stays text from the answer to the screen.

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const EXPONENT = /^(-?)(\d+)(?:\.(\d+))?[eE]([+-]?\d+)$/;

/** Parses JSON, with its numbers as text. */
export function read(json) {
  return JSON.parse(json.replace(TOKEN, (token) => (token[0] === '"' ? token : `"${token}"`)));
}

/** Writes a number without an exponent: 1E-7 is 0.0000001. */
export function plain(number) {
  const found = EXPONENT.exec(number);
  if (!found) return number;
  const [, sign, whole, part = "", power] = found;
  const digits = whole + part;
  const point = whole.length + Number(power);
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  if (point >= digits.length) return sign + digits + "0".repeat(point - digits.length);
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
}

/** Formats a number with separators: 1234567.50 is 1,234,567.50. */
export function grouped(number) {
  const [whole, ...part] = plain(String(number)).split(".");
  return [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...part].join(".");
}

/** Returns the numbers of a score, one for each column. */
export function figures(score) {
  return (Array.isArray(score) ? score : [score]).map(grouped);
}

/** Formats a score for a sentence; several columns are named. */
export function scoreText(score, columns) {
  const shown = figures(score);
  if (shown.length === 1) return shown[0];
  return shown.map((figure, i) => `${columns[i].name} ${figure}`).join(", ");
}

/** Formats a gap for a sentence: the first column that differs, since that column decides. */
export function gapText(gap, columns) {
  if (!Array.isArray(gap)) return grouped(gap);
  const decides = Math.max(gap.findIndex((figure) => !isZero(figure)), 0);
  return `${grouped(gap[decides])} ${columns[decides].name}`;
}

/** Formats an amount to add, with its sign. */
export function signed(number) {
  return number.startsWith("-") ? grouped(number) : `+${grouped(number)}`;
}

/** Returns whether every column of a score is zero. */
export function isZero(score) {
  const hasUnits = (figure) => /[1-9]/.test(figure.split(/e/i)[0]);
  return !(Array.isArray(score) ? score : [score]).some(hasUnits);
}

/**
 * Formats an estimated rank with its bounds: "about 1,204,000; between 1,198,000 and 1,210,000";
 * null for an exact one.
 */
export function estimateText(low, high) {
  if (low === high) return null;
  const middle = (BigInt(low) + BigInt(high)) / 2n;
  return `about ${grouped(middle)}; between ${grouped(low)} and ${grouped(high)}`;
}

/** Formats the rank in an answer: a number, or its bounds. */
export function rankText(rank) {
  return typeof rank === "object" ? estimateText(rank.low, rank.high) : `#${grouped(rank)}`;
}

/** Formats a percentile as "Top 7 %", rounded up, so that it is never too good. */
export function topPercent(percent) {
  const share = Number(percent);
  const step = share >= 10 ? 1 : share >= 1 ? 0.1 : 0.01;
  const shown = Math.max(Math.ceil(share / step - 1e-6) * step, 0.01);
  return `Top ${Number(shown.toFixed(2))} %`;
}
