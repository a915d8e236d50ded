/** What is kept how long (RETENTION_DAYS…). Data; any thread. */
import { z } from 'zod';
import { endpoint } from './endpoint.ts';

/** What has an age that an operator may bound. */
export const KEPT_KINDS = ['runs', 'traces', 'findings', 'live_events', 'captures'] as const;

const retentionOut = z
  .object({
    kinds: z
      .array(
        z.object({
          kind: z.enum(KEPT_KINDS).describe('What is kept; `captures`: captured exchanges'),
          days: z.int().nullable().describe('Deleted when it is older than so many days; null: never'),
        }),
      )
      .describe('In a fixed order'),
    looks_every_s: z.int().describe('How often the service looks for what is too old'),
  })
  .meta({ id: 'Retention' });

export const RETENTION_ROUTES = {
  readRetention: endpoint({
    id: 'retention',
    method: 'GET',
    path: '/retention',
    auth: 'user',
    permission: 'signed in',
    summary: 'What the service deletes by age, as its operator has set it',
    tag: 'organizations',
    replies: { 200: { description: 'The bounds', schema: retentionOut } },
  }),
} as const;
