// How good a value is among all.

/** The share of values that are worse than one, or as good. @param {number[]} sorted from worst to best @param {number} sign @param {number|null} value */
export function shareOf(sorted, sign, value) {
  if (value === null || !sorted.length) return null;
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sign * sorted[middle] <= sign * value) low = middle + 1;
    else high = middle;
  }
  // Equal values get one colour, and a single one the best.
  return sorted[0] === sorted[sorted.length - 1] ? 0.99 : (low - 1) / Math.max(sorted.length - 1, 1);
}
