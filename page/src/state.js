// What the page knows and what is chosen on it: signals. Views read them; only what is here changes them.
import { batch, computed, effect, signal } from "@preact/signals";
import { derive } from "./model/derive.js";
import { litBy } from "./model/paths.js";
import { append, emptyTables } from "./model/tables.js";

/**
 * @typedef {import("./model/paths.js").Item} Item
 * @typedef {import("./model/derive.js").Pulse} Pulse
 * @typedef {{name: string, metric: string|null, mode: "max"|"min"|null}} StudyAbout
 * @typedef {{plan: string, trainer: string, studies: StudyAbout[], study?: string, others?: {plan: string, name: string}[]}} About
 * @typedef {{about?: About, columns: import("./model/tables.js").Delta, number: number, incarnation: string}} Snapshot
 */

const tables = { current: emptyTables() };
const version = signal(0);

/** @type {import("@preact/signals").Signal<About>} */
export const about = signal({ plan: "", trainer: "", studies: [] });
/** @type {import("@preact/signals").Signal<Pulse|null>} */
export const pulse = signal(/** @type {Pulse|null} */ (null));
/** How the connection is: "file" needs none. @type {import("@preact/signals").Signal<"file"|"connecting"|"live"|"lost"|"ended">} */
export const link = signal(/** @type {any} */ ("connecting"));
/** Whether the server does not know this browser any more. */
export const locked = signal(false);

// What is chosen.
/** @type {import("@preact/signals").Signal<string|null>} a study's name; null: all of the plan's */
export const chosenStudy = signal(/** @type {string|null} */ (null));
/** @type {import("@preact/signals").Signal<string|null>} */
export const chosenMetric = signal(/** @type {string|null} */ (null));
/** @type {import("@preact/signals").Signal<Item|null>} */
export const hovered = signal(/** @type {Item|null} */ (null));
/** @type {import("@preact/signals").Signal<Item|null>} */
export const selected = signal(/** @type {Item|null} */ (null));
/** @type {import("@preact/signals").Signal<number|null>} a second trial, beside the selected one */
export const beside = signal(/** @type {number|null} */ (null));
/** @type {import("@preact/signals").Signal<number|null>} a step that was picked on a curve */
export const picked = signal(/** @type {number|null} */ (null));
/** @type {import("@preact/signals").Signal<number>} grows when the colours of the page change */
export const theme = signal(0);

/** Which study is shown, and by what its trials are ranked. */
const aim = computed(() => {
  version.value;
  const known = tables.current.studies.name;
  const study = chosenStudy.value === null ? -1 : known.indexOf(chosenStudy.value);
  const info = about.value.studies.find((each) => each.name === (chosenStudy.value ?? about.value.study)) ?? about.value.studies[0];
  const { tunings, results } = tables.current;
  const tuned = tunings.study.findLastIndex((each) => study < 0 || each === study);
  const metric = chosenMetric.value ?? (tuned < 0 ? info?.metric : tunings.metric[tuned]) ?? Object.keys(results.metrics)[0] ?? "";
  const likewise = tunings.metric.lastIndexOf(metric);
  const mode = (likewise < 0 ? about.value.studies.find((each) => each.metric === metric)?.mode : tunings.mode[likewise]) ?? (/loss|err|mse|mae|ppl|perplexity|nll/i.test(metric) ? "min" : "max");
  return { study, metric, mode: /** @type {"max"|"min"} */ (mode) };
});

/** Everything that views draw. It is made anew when something came, within a share of the time.
 * @type {import("@preact/signals").Signal<import("./model/derive.js").Model>} */
export const model = signal(derive(tables.current, { study: -1, metric: "", mode: "max" }, null));
export const EMPTY = model.peek();
/** Whether a snapshot is here yet. */
export const isRead = signal(false);

export const trialsById = computed(() => new Map(model.value.trials.map((trial) => [trial.id, trial])));
/** What is lit up: by what is hovered, else by what is selected. */
export const lit = computed(() => litBy(model.value, hovered.value ?? selected.value, trialsById.value));

const SHARE_OF_TIME = 0.5;
let took = 0;
let last = 0;
let due = 0;

function refresh() {
  due = 0;
  const began = performance.now();
  model.value = derive(tables.current, aim.peek(), pulse.peek());
  const note = () => {
    last = performance.now();
    took = last - began;
  };
  note();
  requestAnimationFrame(() => setTimeout(note)); // when all of it is drawn
}

function refreshSoon() {
  if (due) return;
  const wait = Math.max(took / SHARE_OF_TIME - (performance.now() - last), 0);
  due = window.setTimeout(() => requestAnimationFrame(refresh), wait);
}

/** @param {Snapshot} snapshot */
export function takeSnapshot(snapshot) {
  tables.current = emptyTables();
  append(tables.current, snapshot.columns);
  batch(() => {
    if (snapshot.about) takeAbout(snapshot.about);
    version.value++;
    isRead.value = true;
    refresh();
  });
  clearTimeout(due); // the model has just been made
  due = 0;
}

/** @param {import("./model/tables.js").Delta} columns */
export function takeDelta(columns) {
  append(tables.current, columns);
  version.value++;
}

/** @param {About} said */
export function takeAbout(said) {
  if (!about.value.plan && said.study) chosenStudy.value = said.study;
  about.value = said;
}

effect(() => {
  aim.value;
  pulse.value;
  version.value;
  if (isRead.peek()) refreshSoon();
});

/** Selects something; what is selected already is let go. @param {Item|null} item */
export function select(item) {
  const same = item !== null && JSON.stringify(item) === JSON.stringify(selected.value);
  batch(() => {
    selected.value = same ? null : item;
    if (same || !item) picked.value = null;
    if (same || item?.kind !== "trial") beside.value = null;
  });
}

/** Puts a trial beside the selected one; without a selected one, selects it. @param {number} id */
export function compare(id) {
  if (selected.value?.kind !== "trial") select({ kind: "trial", id });
  else beside.value = beside.value === id || selected.value.id === id ? null : id;
}
