/** Tags, note and score of a run, and the dialog that changes them. Browser. */
import { quoteValue } from '../../domain/run-query/words.ts';
import { hrefOf } from '../core/address.ts';
import { call } from '../core/api.ts';
import type { CapturedRun } from '../core/captured.ts';
import { scopeFilters } from '../core/listed-runs.ts';
import { ask } from './form.tsx';
import { act } from './notice.tsx';

type Noted = Pick<CapturedRun, 'run_id' | 'tags' | 'note' | 'feedback_score'>;

/** The tags of a run, each with a link to the runs that have it. */
function RunTags({ tags }: { tags: readonly string[] }) {
  return (
    <>
      {tags.map((tag) => (
        <a
          key={tag}
          class="badge plain tag"
          href={hrefOf('runs', null, { ...scopeFilters(), q: `tag:=${quoteValue(tag, /\s/.test(tag))}` })}
        >
          {tag}
        </a>
      ))}
    </>
  );
}

/** Shown below the head of a run's page. @param refresh null: the reader cannot change them here */
export function RunNotes({ run, refresh }: { run: Noted; refresh: (() => void) | null }) {
  const { tags, note, feedback_score } = run;
  const isEmpty = tags.length === 0 && note === '' && feedback_score === null;
  if (isEmpty && refresh === null) return null;
  return (
    <section class="run-notes" aria-label="Tags and note">
      <p class="badges">
        <RunTags tags={tags} />
        {feedback_score === null ? null : <span class="faint">feedback {feedback_score}</span>}
        {refresh === null ? null : (
          <button type="button" class="plain small" onClick={() => void edit(run, refresh)}>
            {isEmpty ? 'Add tags or a note' : 'Edit tags and note'}
          </button>
        )}
      </p>
      {note === '' ? null : (
        <p class="run-note" dir="auto">
          {note}
        </p>
      )}
    </section>
  );
}

async function edit({ run_id, tags, note, feedback_score }: Noted, refresh: () => void): Promise<void> {
  const values = await ask({
    heading: 'Tags and note',
    button: 'Save',
    fields: [
      {
        name: 'tags',
        label: 'Tags',
        value: tags.join(', '),
        maxlength: 2_000,
        hint: 'With commas between them',
      },
      { name: 'note', label: 'Note', type: 'textarea', value: note, maxlength: 4_000 },
      {
        name: 'score',
        label: 'Feedback score',
        value: feedback_score === null ? '' : String(feedback_score),
        hint: 'From 0 to 1; empty for none',
      },
    ],
  });
  if (values === null) return;
  const score = (values.score ?? '').trim();
  const body = {
    tags: (values.tags ?? '')
      .split(',')
      .map((tag) => tag.trim())
      .filter((tag) => tag !== ''),
    note: values.note ?? '',
    feedback_score: score === '' ? null : Number(score.replace(',', '.')),
  };
  const request = { params: { id: run_id }, body };
  if (await act(() => call('POST /capture/runs/{id}/mark', request), 'Saved')) refresh();
}
