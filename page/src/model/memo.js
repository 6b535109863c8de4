/** Remembers what a function makes of a model, as long as there is that model: views are drawn more often than it changes.
 * @template {object} M
 * @template T
 * @param {(model: M) => T} make @returns {(model: M) => T} */
export function perModel(make) {
  /** @type {WeakMap<M, {made: T}>} */
  const known = new WeakMap();
  return (model) => {
    let found = known.get(model);
    if (!found) known.set(model, (found = { made: make(model) }));
    return found.made;
  };
}
