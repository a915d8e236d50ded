/** A message about the reader's last action: one line at the top, until it is closed or replaced. Browser. */
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

/** Performs an action and shows its outcome. @returns whether it succeeded */
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
