/**
 * The sign-in page, and the page that is shown until it is known whether the reader is signed in. Browser.
 */
import { signal } from '@preact/signals';
import type { ApiError } from '../core/api.ts';
import { type OfferedSession, signIn, signInReason } from '../core/session.ts';
import { Snippet } from './basics.tsx';
import { Form } from './form.tsx';
import { Failed, Skeleton } from './states.tsx';

/** Why it is unknown who is signed in. null: the first request is running, or has succeeded. */
export const startFailure = signal<ApiError | null>(null);

export function Starting() {
  return (
    <main class="sign-in" id="main">
      <img src="/dashboard/icon.svg" alt="" width={40} height={40} />
      {startFailure.value === null ? (
        <Skeleton lines={3} />
      ) : (
        <Failed error={startFailure.value} again={() => location.reload()} />
      )}
    </main>
  );
}

/** Asks the reader before a link signs in another user. */
export function ReplaceSession({ offered }: { offered: OfferedSession }) {
  return (
    <main class="sign-in" id="main">
      <img src="/dashboard/icon.svg" alt="" width={40} height={40} />
      <h1>Sign in as another user?</h1>
      <p>
        You are signed in as <strong>{offered.current}</strong>. This link signs you in as{' '}
        <strong>{offered.offered}</strong>: what you then type and make is theirs. Continue only if you asked
        for this link.
      </p>
      <div class="form-actions">
        <button type="button" class="main" autofocus onClick={() => offered.decide(false)}>
          Stay signed in
        </button>
        <button type="button" onClick={() => offered.decide(true)}>
          Sign in as {offered.offered}
        </button>
      </div>
    </main>
  );
}

export function SignIn() {
  const submit = async ({ token = '' }: Record<string, string>) => {
    try {
      await signIn(token);
    } catch (thrown) {
      signInReason.value =
        (thrown as ApiError).status === 401
          ? 'The server refuses this token: another server made it, it has expired, it names no e-mail address, or its account was deleted.'
          : (thrown as Error).message;
    }
  };
  return (
    <main class="sign-in" id="main">
      <img src="/dashboard/icon.svg" alt="" width={40} height={40} />
      <h1>Sign in to Understudy</h1>
      <p>Open the link that the terminal shows at the start, or paste a token.</p>
      {signInReason.value === '' ? null : (
        <p class="alarm" role="alert">
          {signInReason.value}
        </p>
      )}
      <Form
        fields={[{ name: 'token', label: 'Token', type: 'password', required: true }]}
        button="Sign in"
        submit={submit}
      />
      <p class="faint">Without an identity provider, the operator of the server makes tokens there:</p>
      <Snippet
        text={'npx understudy-gateway token --owner\nnpx understudy-gateway token --email ann@example.com'}
        label="Commands that make a token: for the operator, and for another person"
      />
    </main>
  );
}
