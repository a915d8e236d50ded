/**
 * Whether the server answers, according to the last requests. Waiting parts of the page are notified when it
 * answers again. Browser.
 */
import { signal } from '@preact/signals';

/** false: the last request got no answer, or the browser has gone offline. */
export const isConnected = signal(true);

/** Dispatches `back` when a failed call should be repeated immediately. */
const back = new EventTarget();

export function noteAnswer(): void {
  if (isConnected.peek()) return;
  isConnected.value = true;
  back.dispatchEvent(new Event('back'));
}

export function noteSilence(): void {
  isConnected.value = false;
}

addEventListener('online', () => back.dispatchEvent(new Event('back')));
addEventListener('offline', noteSilence);
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') back.dispatchEvent(new Event('back'));
});

/**
 * Calls the listener when the server may answer again: at the first answer after a request without one, when the
 * browser is online again, and when the page becomes visible.
 * @returns a function that stops the calls
 */
export function onBack(listener: () => void): () => void {
  back.addEventListener('back', listener);
  return () => back.removeEventListener('back', listener);
}

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;

/**
 * How long to wait before the next attempt, in milliseconds, after this many consecutive failures. The wait doubles
 * with each failure up to LONGEST_WAIT_MS. It is then made up to a quarter longer or shorter at random, so that not all
 * browsers retry at the same time.
 * @param failures at least 1
 */
export function waitAfter(failures: number): number {
  const wait_ms = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1));
  return wait_ms * (0.75 + Math.random() / 2);
}

/**
 * Waits this long, or until the server may be back. Rejects with the signal's reason if the signal is
 * aborted.
 */
export function pause(wait_ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (act: () => void) => {
      clearTimeout(timer);
      stop();
      signal.removeEventListener('abort', give_up);
      act();
    };
    const timer = setTimeout(() => end(resolve), wait_ms);
    const stop = onBack(() => end(resolve));
    const give_up = () => end(() => reject(signal.reason));
    signal.addEventListener('abort', give_up);
    if (signal.aborted) give_up();
  });
}
