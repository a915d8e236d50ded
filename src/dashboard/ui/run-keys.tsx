/**
 * Navigation in a run by button and key: to the next and the previous problem, and between rendered and raw
 * texts. Browser.
 */
import { useComputed } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { filterOf, setFilters } from '../core/address.ts';
import type { ReadConversation } from '../core/conversation-reader.ts';
import { countOf } from '../core/format.ts';
import { listProblems, type Problem } from '../core/problems.ts';
import { isRaw } from './rendered-text.tsx';

export function RunKeys({ read, more }: { read: ReadConversation; more: () => void }) {
  const { run, turns, has_more } = read;
  const problems = useMemo(() => listProblems(run, turns), [run, turns]);
  const wanted = useComputed(() => filterOf('turn'));
  const here = turns.findIndex(({ exchange_id }) => String(exchange_id) === wanted.value);
  const go = (step: 1 | -1) => {
    const next = findNext(problems, here, step);
    if (next === null || (step === 1 && next.at <= here && has_more)) {
      if (has_more) more();
      if (next === null) return;
    }
    setFilters({ turn: String(next.exchange_id) });
    showTurn(String(next.exchange_id));
  };
  useKeys({
    n: () => go(1),
    p: () => go(-1),
    r: () => {
      isRaw.value = !isRaw.peek();
    },
  });
  const current = problems.find(({ at }) => at === here);
  return (
    <section class="run-keys" aria-label="Navigation in this run">
      {problems.length === 0 ? (
        <span class="faint">No problems{has_more ? ' so far' : ''}</span>
      ) : (
        <>
          <button type="button" class="plain small" onClick={() => go(-1)}>
            Previous problem <kbd>p</kbd>
          </button>
          <button type="button" class="plain small" onClick={() => go(1)}>
            Next problem <kbd>n</kbd>
          </button>
        </>
      )}
      <span class="run-keys-words" role="status">
        {current === undefined
          ? problems.length === 0
            ? ''
            : `${countOf(problems.length, 'turn')} with problems`
          : `${problems.indexOf(current) + 1} of ${problems.length}, turn ${current.at + 1}: ${current.words}`}
      </span>
      <button
        type="button"
        class="plain small"
        aria-pressed={isRaw.value}
        onClick={() => {
          isRaw.value = !isRaw.value;
        }}
      >
        Raw texts <kbd>r</kbd>
      </button>
    </section>
  );
}

/**
 * Finds the next problem in a direction. After the last problem comes the first, and before the first comes the last.
 * null: there are no problems.
 */
function findNext(problems: readonly Problem[], here: number, step: 1 | -1): Problem | null {
  if (step === 1) return problems.find(({ at }) => at > here) ?? problems[0] ?? null;
  return problems.findLast(({ at }) => at < here) ?? problems.at(-1) ?? null;
}

/** Calls the function of a pressed key, unless the focus is in a field or a dialog. */
function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (at.closest('input, textarea, select, dialog') !== null) return;
      const act = latest.current[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}

/** Shows the turn that the address names. Until that turn is loaded, asks for more turns. */
export function GoToTurn({ read, more }: { read: ReadConversation; more: () => void }) {
  const wanted = filterOf('turn');
  const shown = useRef('');
  const isThere = read.turns.some(({ exchange_id }) => String(exchange_id) === wanted);
  useEffect(() => {
    if (shown.current === wanted) return;
    if (wanted === '') {
      shown.current = '';
      return;
    }
    if (!isThere) {
      if (read.has_more) more();
      return;
    }
    shown.current = wanted;
    showTurn(wanted);
  }, [wanted, isThere, read]);
  return null;
}

/** Scrolls to a turn, marks it, and focuses its number. */
function showTurn(exchange_id: string): void {
  const place = document.getElementById(`turn-${exchange_id}`);
  if (place === null) return;
  for (const former of document.querySelectorAll('.turn-place.pointed-out'))
    former.classList.remove('pointed-out');
  place.classList.add('pointed-out');
  place.scrollIntoView();
  place.querySelector<HTMLElement>('.turn-head a')?.focus({ preventScroll: true });
}
