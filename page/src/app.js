// The page as a whole.
import { useEffect } from "preact/hooks";
import { html } from "./parts/html.js";
import { about, chosenMetric, chosenStudy, isRead, link, locked, model, select, selected } from "./state.js";
import { StopStudy } from "./views/actions.js";
import { Curves } from "./views/curves.js";
import { Detail } from "./views/detail.js";
import { Effects } from "./views/effects.js";
import { Next } from "./views/next.js";
import { Overview } from "./views/overview.js";
import { Parallel } from "./views/parallel.js";
import { Studies } from "./views/studies.js";
import { Timeline } from "./views/timeline.js";
import { Tree } from "./views/tree.js";
import { Trials } from "./views/trials.js";

export function App() {
  const name = chosenStudy.value ?? about.value.study ?? about.value.studies[0]?.name ?? "Hippo";
  useEffect(() => {
    document.title = `${name} · Hippo`;
  }, [name]);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const onKey = (event) => {
      if (event.key === "Escape") select(null);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return html`<a class="skip" href="#trials">Skip to the table of trials</a>
    <${Head} name=${name} />
    <${Banner} />
    ${isRead.value ? html`<${Body} />` : html`<p class="loading">Reading the study…</p>`}`;
}

function Body() {
  return html`<div class=${`body ${selected.value ? "with-detail" : ""}`}>
      <main>
        <${Overview} />
        <div class="views"><${Tree} /><${Curves} /><${Timeline} /><${Effects} /><${Trials} /><${Parallel} /><${Next} /><${Studies} /></div>
      </main>
      <${Detail} />
    </div>`;
}

/** @param {{name: string}} props */
function Head({ name }) {
  const { studies, trainer, plan, others = [] } = about.value;
  /** @param {string} value */
  const go = (value) => {
    if (value.startsWith("plan ")) location.assign(`../${value.slice(5)}/`);
    else chosenStudy.value = value || null;
  };
  const { metrics, aim } = model.value;
  return html`<header class="head">
    <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true"><path d="M2 12h7M9 12c4 0 3-7 8-7h5M9 12c4 0 3 7 8 7h5M9 12h13" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round"/></svg>
    <h1>${name}</h1>
    <span class="sub">${trainer}${plan ? html` <span class="faint">plan ${plan.slice(0, 8)}</span>` : ""}</span>
    <span class="space"></span>
    ${studies.length + others.length > 1 && html`<label>study <select value=${chosenStudy.value ?? ""} onChange=${(/** @type {any} */ event) => go(event.target.value)}>
      <option value="">all of the plan</option>${studies.map((each) => html`<option key=${each.name} value=${each.name}>${each.name}</option>`)}
      ${others.length > 0 && html`<optgroup label="on other plans">${others.map((each) => html`<option key=${`${each.plan} ${each.name}`} value=${`plan ${each.plan}`}>${each.name}</option>`)}</optgroup>`}</select></label>`}
    ${metrics.length > 1 && html`<label>metric <select value=${aim.metric} onChange=${(/** @type {any} */ event) => (chosenMetric.value = event.target.value)}>
      ${metrics.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>`}
    <${StopStudy} />
    <${Status} />
  </header>`;
}

const WORDS = {
  file: ["○", "a copy"], connecting: ["◌", "connecting"], live: ["●", "live"], lost: ["✕", "server gone"], ended: ["■", "ended"],
};

function Status() {
  const [shape, words] = WORDS[link.value];
  return html`<span class=${`link-state ${link.value}`} role="status"><span aria-hidden="true">${shape}</span> ${words}</span>`;
}

function Banner() {
  if (locked.value) return html`<p class="banner" role="alert">The server does not know this browser: open the address that it has printed.</p>`;
  if (link.value !== "lost") return null;
  return html`<p class="banner" role="alert">The server is gone. What you see is from before; the page goes on by itself as soon as the server is back.</p>`;
}
