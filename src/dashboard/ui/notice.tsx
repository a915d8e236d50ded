/** What the page has to say of what its reader has just done: one line on top, until it is closed or the next. Browser. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

interface Said {
  words: ComponentChildren;
  is_failure: boolean;
}

const said = signal<Said | null>(null);

export function notify(words: ComponentChildren, is_failure = false): void {
  said.value = { words, is_failure };
}

export function clearNotice(): void {
  said.value = null;
}

/** Does something for the reader, and says how it went. @returns whether it was done */
export async function act(work: () => Promise<unknown>, done: ComponentChildren = null): Promise<boolean> {
  try {
    clearNotice();
    await work();
    if (done !== null) notify(done);
    return true;
  } catch (thrown) {
    notify((thrown as Error).message, true);
    return false;
  }
}

export function Notice() {
  return (
    <div class="notice-place" role="status" aria-live="polite">
      {said.value === null ? null : (
        <div class={`notice ${said.value.is_failure ? 'failed' : ''}`}>
          <span>{said.value.words}</span>
          <button type="button" class="quiet" aria-label="Close" onClick={clearNotice}>
            ×
          </button>
        </div>
      )}
    </div>
  );
}
