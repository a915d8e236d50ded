/** Keeps unchanged parts of data, so that only changed parts are drawn again. Pure; browser. */

/**
 * Keeps the objects that did not change, so that only changed parts of the page are drawn again.
 * @param before the shown data
 * @param after the new data, plain JSON
 * @returns `after`, in which each part that equals a part of `before` is replaced by that same object
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

/**
 * Keeps rows of a list. Rows are matched by their ids, because positions change. Rows without an id match by position.
 */
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
