/** Feedback of users about the product (document 1, FeedbackCreate). Data; any thread. */
import { z } from 'zod';
import { endpoint } from './endpoint.ts';
import { text } from './fields.ts';

const FEEDBACK_CHARACTERS = 5_000;
const FEEDBACK_PAGE_CHARACTERS = 500;

const feedbackCreate = z
  .object({
    message: text({ min: 1, max: FEEDBACK_CHARACTERS }),
    page: text({ max: FEEDBACK_PAGE_CHARACTERS }).nullish(),
  })
  .meta({ id: 'FeedbackCreate' });

export const FEEDBACK = {
  sendFeedback: endpoint({
    id: 'send_feedback',
    method: 'POST',
    path: '/feedback',
    described_path: '/feedback/',
    auth: 'user',
    permission: 'signed in',
    summary: 'Send feedback to the operator',
    tag: 'feedback',
    body: feedbackCreate,
    replies: {
      200: {
        description: 'Stored',
        schema: z.object({ id: z.string(), created_at: z.string() }).meta({ id: 'FeedbackStored' }),
      },
    },
  }),
} as const;
