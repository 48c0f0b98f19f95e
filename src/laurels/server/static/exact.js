// Numbers as they were sent. A JSON number becomes a binary float when it is parsed, and digits are
// lost: here it stays text, from the answer to the screen.

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const EXPONENT = /^(-?)(\d+)(?:\.(\d+))?[eE]([+-]?\d+)$/;

/** What JSON text says, its numbers as text. */
export function read(json) {
  return JSON.parse(json.replace(TOKEN, (token) => (token[0] === '"' ? token : `"${token}"`)));
}

/** A number without an exponent: 1E-7 is 0.0000001. */
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

/** A number as people read it: 1234567.50 is 1,234,567.50. */
export function grouped(number) {
  const [whole, ...part] = plain(String(number)).split(".");
  return [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...part].join(".");
}

/** The figures of a score, one for each column. */
export function figures(score) {
  return (Array.isArray(score) ? score : [score]).map(grouped);
}

/** A score in a sentence: with several columns each with its name. */
export function scoreText(score, columns) {
  const shown = figures(score);
  if (shown.length === 1) return shown[0];
  return shown.map((figure, i) => `${columns[i].name} ${figure}`).join(", ");
}

/** A gap in a sentence: with several columns the first in which there is one, as it decides. */
export function gapText(gap, columns) {
  if (!Array.isArray(gap)) return grouped(gap);
  const decides = Math.max(gap.findIndex((figure) => !isZero(figure)), 0);
  return `${grouped(gap[decides])} ${columns[decides].name}`;
}

/** An amount to add: with its sign. */
export function signed(number) {
  return number.startsWith("-") ? grouped(number) : `+${grouped(number)}`;
}

/** Whether every figure of a score is zero. */
export function isZero(score) {
  const hasUnits = (figure) => /[1-9]/.test(figure.split(/e/i)[0]);
  return !(Array.isArray(score) ? score : [score]).some(hasUnits);
}

/** An estimated rank with its bounds: "about 1,204,000; between 1,198,000 and 1,210,000"; null for an
 * exact one. */
export function estimateText(low, high) {
  if (low === high) return null;
  const middle = (BigInt(low) + BigInt(high)) / 2n;
  return `about ${grouped(middle)}; between ${grouped(low)} and ${grouped(high)}`;
}

/** A rank as an answer has it: a number, or its bounds. */
export function rankText(rank) {
  return typeof rank === "object" ? estimateText(rank.low, rank.high) : `#${grouped(rank)}`;
}

/** "Top 7 %", rounded up: nobody is told to stand higher than they do. */
export function topPercent(percent) {
  const share = Number(percent);
  const step = share >= 10 ? 1 : share >= 1 ? 0.1 : 0.01;
  const shown = Math.max(Math.ceil(share / step - 1e-6) * step, 0.01);
  return `Top ${Number(shown.toFixed(2))} %`;
}
