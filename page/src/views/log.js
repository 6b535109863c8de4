// What a trial's training logged and printed, asked for when somebody wants to see it.
import { useEffect, useState } from "preact/hooks";
import { metric, number, plural } from "../parts/format.js";
import { html } from "../parts/html.js";
import { link } from "../state.js";

/** @param {{trial: import("../model/derive.js").Trial}} props */
export function TrialLog({ trial }) {
  const [open, setOpen] = useState(false);
  const [found, setFound] = useState(/** @type {{logged: Record<string, [number, number][]>, printed: string[], left_out: number}|null} */ (null));
  const [said, setSaid] = useState("");
  useEffect(() => {
    setFound(null);
    setSaid("");
    if (!open) return;
    fetch(`trials/${trial.id}`)
      .then(async (response) => (response.ok ? setFound(await response.json()) : setSaid(`the server answered ${response.status}`)))
      .catch(() => setSaid("the server is gone"));
  }, [trial.id, trial.trained, open]);
  if (link.value === "file") return null;
  const names = Object.entries(found?.logged ?? {});
  return html`<details class="log" open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary>Logged and printed</summary>
    ${said && html`<p class="said">${said}</p>`}
    ${names.length > 0 && html`<table><thead><tr><th scope="col" class="left">logged</th><th scope="col">steps</th><th scope="col">last</th><th scope="col"><span class="hidden">course</span></th></tr></thead>
      <tbody>${names.map(([name, points]) => html`<tr key=${name}><th scope="row" class="left">${name}</th><td>${number(points.length)}</td><td>${metric(points[points.length - 1][1])}</td><td><${Course} points=${points} /></td></tr>`)}</tbody></table>`}
    ${found && (found.printed.length
      ? html`${found.left_out > 0 && html`<p class="sub">${plural(found.left_out, "earlier line")} left out</p>`}<pre class="printed" tabindex="0" aria-label="What it printed">${found.printed.join("\n").trim()}</pre>`
      : html`<p class="sub">it has printed nothing</p>`)}
  </details>`;
}

/** @param {{points: [number, number][]}} props */
function Course({ points }) {
  const values = points.map(([, value]) => value).filter(Number.isFinite);
  const [low, high] = [Math.min(...values.slice(-5000)), Math.max(...values.slice(-5000))];
  const line = values.map((value, place) => `${((96 * place) / Math.max(values.length - 1, 1)).toFixed(1)},${(19 - (18 * (value - low)) / (high - low || 1)).toFixed(1)}`);
  return html`<svg width="96" height="20" aria-hidden="true"><polyline points=${line.join(" ")} fill="none" stroke="currentColor" stroke-width="1.5" /></svg>`;
}
