// Configs in words, and as numbers.
import { perModel } from "./memo.js";

/**
 * @typedef {import("./tables.js").Tables} Tables
 * @typedef {import("./derive.js").Model} Model
 */

/**
 * The sequences of each hyper-parameter by config, as numbers; nothing where a config does not have it.
 * @typedef {Map<string, (number|undefined)[]>} ByName
 */

const columnsKnown = perModel((/** @type {Tables} */ _) => ({ columns: /** @type {ByName} */ (new Map()), length: 0 }));

/** @param {Tables} tables @returns {ByName} */
export function columnsOf(tables) {
  const known = columnsKnown(tables); // configs never change: only new ones are taken in
  const { configs, forms, sequences, names } = tables;
  for (; known.length < configs.sequences.length; known.length++) {
    for (const sequence of configs.sequences[known.length]) {
      const name = names.name[forms.name[sequences.form[sequence]]];
      let column = known.columns.get(name);
      if (!column) known.columns.set(name, (column = []));
      column[known.length] = sequence;
    }
  }
  return known.columns;
}

/** A config's hyper-parameters, by name.
 * @param {Tables} tables @param {number} config @returns {Map<string, number>} the numbers of their sequences */
export function sequencesOf(tables, config) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const [name, column] of columnsOf(tables)) if (column[config] !== undefined) found.set(name, /** @type {number} */ (column[config]));
  return found;
}

/** @param {Tables} tables @param {number} config @returns {[string, string][]} */
export function written(tables, config) {
  return [...sequencesOf(tables, config)].map(([name, sequence]) => [name, tables.sequences.text[sequence]]);
}

/** The hyper-parameters that differ between the trials. */
export const differingIn = perModel((/** @type {Model} */ { tables, trials }) => differing(tables, trials.map((trial) => trial.config)));

const MOST_TEXTS = 500;

/** The hyper-parameters that differ between some configs, those that take the least room first.
 * @param {Tables} tables @param {number[]} configs @returns {string[]} */
export function differing(tables, configs) {
  /** @type {[string, number][]} */
  const found = [];
  for (const [name, column] of columnsOf(tables)) {
    const seen = new Set(configs.map((config) => column[config]));
    if (seen.size < 2) continue;
    let room = 0;
    for (const sequence of [...seen].slice(0, MOST_TEXTS)) if (sequence !== undefined) room = Math.max(room, tables.sequences.text[sequence].length);
    found.push([name, room]);
  }
  return found.sort((a, b) => a[1] - b[1]).map(([name]) => name);
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
 * One thing that trials differ in: a hyper-parameter that is a number or a choice in all of them, or an argument of its
 * sequences. `column` has the sequences by config, and `of` the values by sequence; a config without one has none.
 * @typedef {{name: string, kind: "number"|"choice", log: boolean, column: (number|undefined)[], of: Map<number|undefined, number|string>}} Axis
 */

const MOST_CHOICES = 16;

/** The things that the trials with a result differ in. */
export const axesOf = perModel((/** @type {Model} */ { tables, trials }) => {
  const configs = trials.filter((trial) => trial.value !== null).map((trial) => trial.config);
  const { forms, sequences } = tables;
  /** @type {Axis[]} */
  const axes = [];
  for (const name of differing(tables, configs)) {
    const column = /** @type {(number|undefined)[]} */ (columnsOf(tables).get(name));
    const distinct = /** @type {number[]} */ ([...new Set(configs.map((config) => column[config]))].filter((sequence) => sequence !== undefined));
    /** @param {string} title @param {(sequence: number) => any} value @param {number[]} [among] */
    const add = (title, value, among = distinct) => axes.push(axis(title, column, among.map((sequence) => [sequence, value(sequence)])));
    if (distinct.every((sequence) => typeof sequences.value[sequence] === "number")) {
      add(name, (sequence) => sequences.value[sequence]);
      continue;
    }
    const kinds = new Set(distinct.map((sequence) => sequences.form[sequence]));
    if (distinct.length <= MOST_CHOICES && kinds.size > 1) {
      add(name, (sequence) => sequences.text[sequence]);
      continue;
    }
    if (kinds.size > 1) add(name, (sequence) => forms.label[sequences.form[sequence]]);
    for (const kind of kinds) {
      const prefix = kinds.size > 1 ? `${name}.${forms.label[kind]}` : name;
      const alike = distinct.filter((sequence) => sequences.form[sequence] === kind);
      forms.leaves[kind].forEach((leaf, place) => {
        if (new Set(alike.map((sequence) => sequences.arguments[sequence][place])).size > 1) add(`${prefix}.${leaf}`, (sequence) => sequences.arguments[sequence][place], alike);
      });
    }
  }
  return axes;
});

/** @param {string} name @param {(number|undefined)[]} column @param {[number, any][]} values @returns {Axis} */
function axis(name, column, values) {
  if (!values.every(([, value]) => typeof value === "number")) {
    return { name, kind: "choice", log: false, column, of: new Map(values.map(([sequence, value]) => [sequence, String(value)])) };
  }
  const low = values.reduce((least, [, value]) => Math.min(least, value), Infinity);
  const high = values.reduce((most, [, value]) => Math.max(most, value), -Infinity);
  return { name, kind: "number", log: low > 0 && high / low >= 10, column, of: new Map(values) };
}

/** What a config has on an axis. @param {Axis} axis @param {number} config @returns {number|string|undefined} */
export const valueOn = (axis, config) => axis.of.get(axis.column[config]);
