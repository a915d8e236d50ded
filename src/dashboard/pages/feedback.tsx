/** Feedback to the operator of this server. Browser. */
import { call } from '../core/api.ts';
import { PageHead, Panel } from '../ui/basics.tsx';
import { Form } from '../ui/form.tsx';
import { act } from '../ui/notice.tsx';

export function FeedbackPage() {
  return (
    <>
      <PageHead title="Feedback" sub="Read by the operator of this server." />
      <Panel>
        <Form
          fields={[
            {
              name: 'message',
              label: 'What should be better?',
              type: 'textarea',
              required: true,
              maxlength: 5_000,
            },
          ]}
          button="Send"
          submit={({ message = '' }) =>
            act(() => call('POST /feedback', { body: { message, page: '/' } }), 'Thank you.')
          }
          clears
        />
      </Panel>
    </>
  );
}
