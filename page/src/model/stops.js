// What people have stopped. It stays so until the study is tuned again.

/** @typedef {import("./tables.js").Tables} Tables */

/** The rows of what was stopped since its study was last tuned. @param {Tables} tables @returns {number[]} */
function standing({ stops, tunings }) {
  return stops.study.flatMap((study, row) => {
    const began = tunings.study.lastIndexOf(study);
    return began < 0 || tunings.time[began] <= stops.time[row] ? [row] : [];
  });
}

/** Who has stopped a study; null where it was not stopped. @param {Tables} tables @param {string} name @returns {{by: string}|null} */
export function stopOf(tables, name) {
  const { stops, studies } = tables;
  const row = standing(tables).find((each) => stops.trial[each] < 0 && studies.name[stops.study[each]] === name);
  return row === undefined ? null : { by: stops.by[row] };
}

/** The trials that were stopped, each as its study and its number. @param {Tables} tables @returns {Set<string>} */
export function stoppedTrials(tables) {
  const { stops } = tables;
  return new Set(standing(tables).filter((row) => stops.trial[row] >= 0).map((row) => `${stops.study[row]} ${stops.trial[row]}`));
}
