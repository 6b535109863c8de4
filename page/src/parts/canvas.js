// A canvas as large as its frame, sharp on every screen, and drawn once a frame at most.
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../state.js";
import { html } from "./html.js";
import { watchSight } from "./sight.js";

/**
 * @typedef {{context: CanvasRenderingContext2D, width: number, height: number}} Surface
 * @param {{draw: (surface: Surface) => void, height: number|string, label: string, handlers?: Record<string, any>, cursor?: string, describedBy?: string}} props
 */
export function Canvas({ draw, height, label, handlers = {}, cursor, describedBy }) {
  const canvas = useRef(/** @type {HTMLCanvasElement|null} */ (null));
  const latest = useRef(draw);
  const request = useRef(0);
  const inSight = useRef(false);
  latest.current = draw;
  theme.value; // other colours: drawn again

  const paint = () => {
    request.current = 0;
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const { clientWidth, clientHeight } = element;
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)];
    if (element.width !== wide || element.height !== high) [element.width, element.height] = [wide, high];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, clientWidth, clientHeight);
    latest.current({ context, width: clientWidth, height: clientHeight });
  };
  const soon = () => {
    if (inSight.current && !request.current) request.current = requestAnimationFrame(paint);
  };
  useEffect(() => {
    const element = /** @type {HTMLCanvasElement} */ (canvas.current);
    const observer = new ResizeObserver(soon);
    observer.observe(element);
    const forget = watchSight(element, (is) => {
      inSight.current = is;
      soon();
    });
    return () => {
      forget();
      observer.disconnect();
      cancelAnimationFrame(request.current);
      request.current = 0;
    };
  }, []);
  useEffect(soon);
  return html`<canvas ref=${canvas} tabindex="0" role="img" aria-label=${label} aria-describedby=${describedBy}
    style=${{ height: typeof height === "number" ? `${height}px` : height, cursor }} ...${handlers}></canvas>`;
}

/** Tells whether something is the first to be drawn at a place, to the pixel: of thousands, most would be hidden. */
export function firstAtPlace() {
  /** @type {Set<number>} */
  const taken = new Set();
  /** @param {number} a @param {number} b @param {number} [c] @param {number} [d] each within 2,000 of zero, or close to it */
  return (a, b, c = 0, d = 0) => {
    let key = 0;
    key = key * 4096 + ((Math.round(a) + 2048) & 4095);
    key = key * 4096 + ((Math.round(b) + 2048) & 4095);
    key = key * 4096 + ((Math.round(c) + 2048) & 4095);
    key = key * 4096 + ((Math.round(d) + 2048) & 4095);
    const isFirst = !taken.has(key);
    if (isFirst) taken.add(key);
    return isFirst;
  };
}

/** Where the pointer is on a canvas. @param {PointerEvent|MouseEvent|WheelEvent} event @returns {[number, number]} */
export function place(event) {
  const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

/** Steps for an axis: round ones, at most as many as asked for. @param {number} low @param {number} high @param {number} most */
export function ticks(low, high, most) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw) ?? raw;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

/** Text that fits, cut where it is too long. @param {CanvasRenderingContext2D} context @param {string} text @param {number} room */
export function fit(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let [short, long] = [0, text.length];
  while (short < long) {
    const middle = (short + long + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= room) short = middle;
    else long = middle - 1;
  }
  return short > 3 ? `${text.slice(0, short)}…` : "";
}

const DOUBLE = 220;

/** Tells one click from two: what a selection opens may move the canvas away from under the second. */
export function useClicks() {
  const timer = useRef(0);
  return {
    /** @param {() => void} act */
    once: (act) => {
      clearTimeout(timer.current);
      timer.current = window.setTimeout(act, DOUBLE);
    },
    /** @param {() => void} act */
    twice: (act) => {
      clearTimeout(timer.current);
      act();
    },
  };
}
