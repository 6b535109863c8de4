// Configs in words, and as numbers.
import { perModel } from "./memo.js";

/**
 * @typedef {import("./tables.js").Tables} Tables
 * @typedef {import("./derive.js").Model} Model
 */

/** A config's hyper-parameters, by name.
 * @param {Tables} tables @param {number} config @returns {Map<string, number>} the numbers of their sequences */
export function sequencesOf(tables, config) {
  const known = sequencesKnown(tables);
  let found = known.get(config);
  if (!found) {
    const { forms, sequences, names } = tables;
    found = new Map((tables.configs.sequences[config] ?? []).map((sequence) => [names.name[forms.name[sequences.form[sequence]]], sequence]));
    if (tables.configs.sequences[config]) known.set(config, found); // it never changes
  }
  return found;
}

const sequencesKnown = perModel((/** @type {Tables} */ _) => /** @type {Map<number, Map<string, number>>} */ (new Map()));

/** @param {Tables} tables @param {number} config @returns {[string, string][]} */
export function written(tables, config) {
  return [...sequencesOf(tables, config)].map(([name, sequence]) => [name, tables.sequences.text[sequence]]);
}

/** The hyper-parameters that differ between the trials. */
export const differingIn = perModel((/** @type {Model} */ { tables, trials }) => differing(tables, trials.map((trial) => trial.config)));

/** The hyper-parameters that differ between some configs, those that take the least room first.
 * @param {Tables} tables @param {Iterable<number>} configs @returns {string[]} */
export function differing(tables, configs) {
  /** @type {Map<string, Set<number>>} */
  const seen = new Map();
  let count = 0;
  /** @type {Map<string, number>} */
  const times = new Map();
  for (const config of configs) {
    count++;
    for (const [name, sequence] of sequencesOf(tables, config)) {
      let known = seen.get(name);
      if (!known) seen.set(name, (known = new Set()));
      known.add(sequence);
      times.set(name, (times.get(name) ?? 0) + 1);
    }
  }
  /** @param {string} name */
  const room = (name) => Math.max(...[...(seen.get(name) ?? [])].slice(0, 500).map((sequence) => tables.sequences.text[sequence].length));
  return [...seen].filter(([name, known]) => known.size > 1 || times.get(name) !== count)
    .map(([name]) => /** @type {[string, number]} */ ([name, room(name)]))
    .sort((a, b) => a[1] - b[1])
    .map(([name]) => name);
}

/** What a node changes: its values that are other ones than those of the node that it leaves, where it does.
 * @param {Model} model @param {number} node */
export function changes(model, node) {
  const { tables, parent } = model;
  const said = tables.nodes.changes[node] ?? [];
  if (parent[node] >= 0) return said.join(" · ");
  const same = sameInRoots(model);
  return said.filter((text) => !same.has(text)).join(" · ");
}

/** What all beginnings have in common, where there are several. */
const sameInRoots = perModel((/** @type {Model} */ model) => {
  const roots = model.roots.map((node) => model.tables.nodes.changes[node]);
  return new Set(roots.length > 1 ? roots[0].filter((text) => roots.every((other) => other.includes(text))) : []);
});

/**
 * One thing that trials differ in: a hyper-parameter that is a number or a choice in all of them, or an argument of its sequences.
 * @typedef {{name: string, kind: "number"|"choice", log: boolean, of: Map<number, number|string>}} Axis
 */

const MOST_CHOICES = 16;

/** The things that the trials with a result differ in. */
export const axesOf = perModel((/** @type {Model} */ { tables, trials }) => {
  const configs = [...new Set(trials.filter((trial) => trial.value !== null).map((trial) => trial.config))];
  const { forms, sequences } = tables;
  /** @type {Axis[]} */
  const axes = [];
  const all = new Map(configs.map((config) => [config, sequencesOf(tables, config)]));
  for (const name of differing(tables, all.keys())) {
    /** @type {Map<number, number>} */
    const chosen = new Map();
    for (const [config, known] of all) if (known.has(name)) chosen.set(config, /** @type {number} */ (known.get(name)));
    const distinct = new Set(chosen.values());
    if ([...distinct].every((sequence) => typeof sequences.value[sequence] === "number")) {
      axes.push(numeric(name, new Map([...chosen].map(([config, sequence]) => [config, /** @type {number} */ (sequences.value[sequence])]))));
      continue;
    }
    const kinds = new Set([...distinct].map((sequence) => sequences.form[sequence]));
    if (distinct.size <= MOST_CHOICES && kinds.size > 1) {
      axes.push(choice(name, new Map([...chosen].map(([config, sequence]) => [config, sequences.text[sequence]]))));
      continue;
    }
    if (kinds.size > 1) axes.push(choice(name, new Map([...chosen].map(([config, sequence]) => [config, forms.label[sequences.form[sequence]]]))));
    for (const kind of kinds) {
      const prefix = kinds.size > 1 ? `${name}.${forms.label[kind]}` : name;
      forms.leaves[kind].forEach((leaf, place) => {
        /** @type {Map<number, any>} */
        const values = new Map();
        for (const [config, sequence] of chosen) if (sequences.form[sequence] === kind) values.set(config, sequences.arguments[sequence][place]);
        if (new Set(values.values()).size < 2) return;
        const isNumber = [...values.values()].every((value) => typeof value === "number");
        axes.push(isNumber ? numeric(`${prefix}.${leaf}`, values) : choice(`${prefix}.${leaf}`, new Map([...values].map(([config, value]) => [config, String(value)]))));
      });
    }
  }
  return axes;
});

/** @param {string} name @param {Map<number, number>} of @returns {Axis} */
function numeric(name, of) {
  const values = [...of.values()];
  const low = Math.min(...values.slice(0, 1e5));
  const high = Math.max(...values.slice(0, 1e5));
  return { name, kind: "number", log: low > 0 && high / low >= 10, of };
}

/** @param {string} name @param {Map<number, string>} of @returns {Axis} */
function choice(name, of) {
  return { name, kind: "choice", log: false, of };
}
