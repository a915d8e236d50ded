/** Keeps what has not changed, so that only what has is drawn again. Pure; browser. */

/**
 * @param before what is shown
 * @param after what was read, plain data of JSON
 * @returns `after`, with every part that says the same as before being the very part of before
 */
export function keepEqual<T>(before: T | null, after: T): T {
  return keep(before, after) as T;
}

function keep(before: unknown, after: unknown): unknown {
  if (Object.is(before, after)) return before;
  if (typeof before !== 'object' || typeof after !== 'object' || before === null || after === null)
    return after;
  if (Array.isArray(before) !== Array.isArray(after)) return after;
  if (Array.isArray(after)) return keepList(before as unknown[], after);
  const old = before as Record<string, unknown>;
  const names = Object.keys(after);
  let isSame = names.length === Object.keys(old).length;
  const kept: Record<string, unknown> = {};
  for (const name of names) {
    kept[name] = keep(old[name], (after as Record<string, unknown>)[name]);
    if (kept[name] !== old[name] || !(name in old)) isSame = false;
  }
  return isSame ? before : kept;
}

/** Rows of a list that has moved on are found by what names them. */
function keepList(before: unknown[], after: unknown[]): unknown[] {
  const named = new Map(before.map((row) => [nameOf(row), row]));
  const kept = after.map((row, at) => {
    const name = nameOf(row);
    return keep(name === null ? before[at] : named.get(name), row);
  });
  return kept.length === before.length && kept.every((row, at) => row === before[at]) ? before : kept;
}

function nameOf(row: unknown): unknown {
  if (typeof row !== 'object' || row === null) return null;
  const { id, run_id, exchange_id, user_id } = row as Record<string, unknown>;
  return id ?? exchange_id ?? run_id ?? user_id ?? null;
}
