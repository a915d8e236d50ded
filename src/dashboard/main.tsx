/** Starts the dashboard: finds out who is signed in, and draws the page. Browser. */
import { render } from 'preact';
import { ApiError } from './core/api.ts';
import { pause, waitAfter } from './core/connection.ts';
import { showMarksEverywhere } from './core/plain-text.ts';
import { openSession } from './core/session.ts';
import { App } from './ui/shell.tsx';
import { startFailure } from './ui/sign-in.tsx';

showMarksEverywhere();
render(<App />, document.getElementById('app')!);

/** Opens the session, and tries again until the server answers. Until then the page shows why it waits. */
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
  // The terminal's link was opened in a tab that already shows the dashboard.
  if (location.hash.includes('token=')) void start();
});
void start();
