/** The dashboard's beginning: what is drawn, and who is signed in. Browser. */
import { render } from 'preact';
import { ApiError } from './core/api.ts';
import { pause, waitAfter } from './core/connection.ts';
import { showMarksEverywhere } from './core/plain-text.ts';
import { openSession } from './core/session.ts';
import { App } from './ui/shell.tsx';
import { startFailure } from './ui/sign-in.tsx';

showMarksEverywhere();
render(<App />, document.getElementById('app')!);

/** Until the server says who is signed in, if anyone. */
async function start(): Promise<void> {
  for (let failures = 1; ; failures++) {
    try {
      await openSession();
      startFailure.value = null;
      return;
    } catch (thrown) {
      startFailure.value = thrown instanceof ApiError ? thrown : new ApiError(400, String(thrown));
      await pause(startFailure.value.retry_after_ms ?? waitAfter(failures), new AbortController().signal);
    }
  }
}

addEventListener('hashchange', () => {
  // The terminal's link, opened in a tab that is here already.
  if (location.hash.includes('token=')) void start();
});
void start();
