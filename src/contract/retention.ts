/** How long data is kept (RETENTION_DAYS…). Data; any thread. */
import { z } from 'zod';
import { endpoint } from './endpoint.ts';

/** Data whose age an operator may limit. */
export const KEPT_KINDS = ['runs', 'traces', 'findings', 'live_events', 'captures'] as const;

const retentionOut = z
  .object({
    kinds: z
      .array(
        z.object({
          kind: z.enum(KEPT_KINDS).describe('Kind of data; `captures`: captured exchanges'),
          days: z
            .int()
            .nullable()
            .describe('Age in days at which such data is deleted; null: it is never deleted by age'),
        }),
      )
      .describe('The limit of each kind of data, in a fixed order'),
    looks_every_s: z.int().describe('Interval between two deletions of old data, in seconds'),
  })
  .meta({ id: 'Retention' });

export const RETENTION_ROUTES = {
  readRetention: endpoint({
    id: 'retention',
    method: 'GET',
    path: '/retention',
    auth: 'user',
    permission: 'signed in',
    summary: 'The age limits that the operator has set',
    tag: 'organizations',
    replies: { 200: { description: 'The limits', schema: retentionOut } },
  }),
} as const;
