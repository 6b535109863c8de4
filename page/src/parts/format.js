// Short ways to write things for people.

const grouped = new Intl.NumberFormat("en");

/** @param {number} count */
export const number = (count) => grouped.format(count);

/** @param {number} count @param {string} one */
export const plural = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;

/** A metric: five digits tell apart what tuners compare. @param {number|null|undefined} value */
export function metric(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e6) ? value.toExponential(3) : String(Number(value.toPrecision(5)));
}

/** @param {number} value */
export function tick(value) {
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e5) ? value.toExponential(1).replace(".0e", "e") : String(Number(value.toPrecision(4)));
}

/** @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(Math.floor(seconds), 0);
  if (seconds < 10 && seconds > 0) return `${seconds.toFixed(1)} s`;
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${String(Math.floor(whole / 60) % 60).padStart(2, "0")} min`;
  return `${Math.floor(whole / 86400)} d ${String(Math.floor(whole / 3600) % 24).padStart(2, "0")} h`;
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let amount = bytes;
  let unit = 0;
  while (amount >= 999.5 && unit < units.length - 1) [amount, unit] = [amount / 1000, unit + 1];
  return unit && amount < 9.95 ? `${amount.toFixed(1)} ${units[unit]}` : `${amount.toFixed(0)} ${units[unit]}`;
}

/** The last line of a traceback says most; of what became of a worker, the first. @param {string} error @param {boolean} suspended */
export function gist(error, suspended = false) {
  const lines = error.trim().split("\n");
  return lines[suspended ? 0 : lines.length - 1] ?? "";
}

/** @type {Record<string, string>} a shape for each state, beside its colour */
export const shapes = { done: "●", running: "▶", unfinished: "○", failed: "✕", suspended: "‖", stopped: "■" };
