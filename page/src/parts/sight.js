// What is out of sight costs nothing: it is drawn once, when there is time, and again when somebody looks.
import { useEffect, useRef, useState } from "preact/hooks";
import { model } from "../state.js";

const NEAR = "200px";

/** Tells when an element comes into sight and when it leaves. @param {Element} element @param {(inSight: boolean) => void} tell @returns {() => void} what ends it */
export function watchSight(element, tell) {
  const observer = new IntersectionObserver((entries) => tell(entries[entries.length - 1].isIntersecting), { rootMargin: NEAR });
  const print = () => tell(true);
  observer.observe(element);
  addEventListener("beforeprint", print);
  return () => {
    observer.disconnect();
    removeEventListener("beforeprint", print);
  };
}

/** The model as a view below the first screen is to show it; null before it is shown at all.
 * @param {string} id of its panel @returns {import("../model/derive.js").Model|null} */
export function useModelInSight(id) {
  const [inSight, setInSight] = useState(false);
  const [, setFilled] = useState(false);
  const shown = useRef(/** @type {import("../model/derive.js").Model|null} */ (null));
  const isBare = !shown.current?.trials.length;
  const latest = inSight || isBare ? model.value : shown.current; // what is not read here does not draw it again
  if (inSight) shown.current = latest;
  useEffect(() => watchSight(/** @type {Element} */ (document.getElementById(id)), setInSight), []);
  useEffect(() => {
    if (inSight || !isBare || !latest?.trials.length) return undefined;
    const timer = setTimeout(() => {
      shown.current = model.peek();
      setFilled(true);
    });
    return () => clearTimeout(timer);
  }, [inSight, isBare && latest]);
  return shown.current;
}
