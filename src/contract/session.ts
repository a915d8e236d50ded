/** The dashboard's session (document 4, "Credentials, roles, errors"). Data; any thread. */
import { z } from 'zod';
import { CREDENTIAL_CHARACTERS } from '../limits.ts';
import { endpoint, errorBody } from './endpoint.ts';
import { text } from './fields.ts';

const sessionBody = z
  .strictObject({ token: text({ min: 1, max: CREDENTIAL_CHARACTERS }) })
  .meta({ id: 'SessionStart' });

export const SESSION = {
  startSession: endpoint({
    id: 'start_session',
    method: 'POST',
    path: '/auth/session',
    auth: 'open',
    summary: "Stores a user's token in a cookie of the dashboard, which scripts cannot read",
    tag: 'account',
    body: sessionBody,
    replies: {
      204: { description: 'Signed in' },
      401: { description: "The token is not a user's token, or has expired", schema: errorBody },
    },
    hidden: true,
  }),
  endSession: endpoint({
    id: 'end_session',
    method: 'DELETE',
    path: '/auth/session',
    auth: 'open',
    summary: 'Removes the cookie of the dashboard',
    tag: 'account',
    replies: { 204: { description: 'Signed out' } },
    hidden: true,
  }),
} as const;
