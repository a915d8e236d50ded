/** Usage of an organization or one of its projects (document 1; document 4, "Usage and billing"). Data; any thread. */
import { z } from 'zod';
import { USAGE_DAYS_MAX } from '../domain/usage.ts';
import { endpoint } from './endpoint.ts';
import { integer, reference } from './fields.ts';
import { KEY_USAGE_SHOWN } from './limits.ts';

/** Default number of days in a usage report. */
const USAGE_DAYS_DEFAULT = 30;

const count = z.number().int();

const usageStatsOut = z
  .object({
    key_count: count,
    member_count: count,
    injections: z.object({ total: count, retrieve: count, evaluate: count }),
  })
  .meta({ id: 'UsageStats' });

const counters = {
  injections: count,
  retrievals: count,
  evaluations: count,
  runs: count,
  steps: count,
  traces: count,
  tokens: count,
};

const usageOut = z
  .object({
    days: count,
    from: z.string(),
    to: z.string(),
    series: z.array(z.object({ date: z.string(), ...counters })),
    totals: z.object(counters),
  })
  .meta({ id: 'Usage' });

const keyUsageOut = z
  .object({
    days: count,
    from: z.string().describe('The first day in UTC'),
    to: z.string().describe('The last day, which is today'),
    keys: z
      .array(
        z.object({
          id: z.string().describe('Id of the key'),
          name: z.string().describe('Name of the key'),
          prefix: z.string(),
          last4: z.string(),
          project_id: z.string().nullable(),
          revoked: z.boolean().describe('Whether the key is revoked or has expired'),
          requests: count.describe('Requests with this key in those days, including refused ones'),
          series: z
            .array(z.object({ date: z.string(), requests: count.describe('Requests of that day') }))
            .describe('The days with requests, the newest first'),
        }),
      )
      .describe(`Keys with the most requests first, at most ${KEY_USAGE_SHOWN}`),
  })
  .meta({ id: 'KeyUsage' });

const scope = { org_id: reference().optional(), project_id: reference().optional() };

export const USAGE_ROUTES = {
  usageStats: endpoint({
    id: 'usage_stats',
    method: 'GET',
    path: '/usage/stats',
    auth: 'user',
    permission: 'usage.read',
    summary: 'Number of keys and members, and interventions so far',
    tag: 'usage',
    query: z.object(scope),
    replies: { 200: { description: 'The numbers', schema: usageStatsOut } },
  }),
  usageSeries: endpoint({
    id: 'usage',
    method: 'GET',
    path: '/usage',
    described_path: '/usage/',
    auth: 'user',
    permission: 'usage.read',
    summary: 'Counts of each day',
    tag: 'usage',
    query: z.object({ ...scope, days: integer({ ge: 1, le: USAGE_DAYS_MAX }).default(USAGE_DAYS_DEFAULT) }),
    replies: { 200: { description: 'One entry per day, today last', schema: usageOut } },
  }),
  keyUsage: endpoint({
    id: 'key_usage',
    method: 'GET',
    path: '/usage/keys',
    auth: 'user',
    permission: 'usage.read',
    summary: 'Requests of each API key, by day; a few seconds old',
    tag: 'usage',
    query: z.object({ ...scope, days: integer({ ge: 1, le: USAGE_DAYS_MAX }).default(USAGE_DAYS_DEFAULT) }),
    replies: { 200: { description: 'The keys', schema: keyUsageOut } },
  }),
} as const;
