/**
 * Findings: facts that agents recorded about code bases. Shows one code base if the address names it.
 * Browser.
 */
import { address, filterOf, hrefOf } from '../core/address.ts';
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { formatNumber, formatShare } from '../core/format.ts';
import { usePagedList } from '../core/paged-list.ts';
import { useResource } from '../core/resource.ts';
import { isAtLeast, organization } from '../core/session.ts';
import { Badge, PageHead, Panel, Time } from '../ui/basics.tsx';
import { FilterRow, FilterText } from '../ui/filters.tsx';
import { ask } from '../ui/form.tsx';
import { LongText } from '../ui/long-text.tsx';
import { act } from '../ui/notice.tsx';
import { Empty, Loaded } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';

type Finding = Reply<'GET /v1/findings/{codebase_id}'>['findings'][number];

const PAGE_ROWS = 50;
const EVERY_MS = 10_000;

export function FindingsPage() {
  const { selection } = address.value;
  return selection === null ? <Codebases /> : <FindingList key={selection} codebase_id={selection} />;
}

function Codebases() {
  const org_id = organization.value!.id;
  const list = usePagedList(
    org_id,
    async (cursor, signal) => {
      const { codebases, next_cursor } = await call('GET /v1/findings', {
        query: { org_id, limit: PAGE_ROWS, cursor },
        signal,
      });
      return { rows: codebases, next_cursor };
    },
    { keyOf: ({ codebase_id }) => codebase_id, every_ms: EVERY_MS },
  );
  return (
    <>
      <PageHead title="Findings" sub="Facts about code bases that agents recorded for later agents." />
      <Panel>
        <Loaded from={list}>
          {({ rows, has_more }) => (
            <>
              <Table
                label="Code bases"
                columns={[
                  {
                    title: 'Code base',
                    show: ({ codebase_id }) => <a href={hrefOf('findings', codebase_id)}>{codebase_id}</a>,
                    kind: 'wide',
                  },
                  {
                    title: 'Findings',
                    show: ({ findings }) => (findings === null ? '–' : formatNumber(findings)),
                    kind: 'number',
                  },
                ]}
                rows={rows}
                keyOf={({ codebase_id }) => codebase_id}
                empty="No findings yet."
                how={
                  <>
                    Agents record them with <a href="/docs/guides/mcp">the tools of /mcp</a>,{' '}
                    <a href="/docs/guides/client">a client library</a> or over <a href="/docs">the API</a>.
                  </>
                }
              />
              {has_more ? <More onMore={list.more} /> : null}
            </>
          )}
        </Loaded>
      </Panel>
    </>
  );
}

function More({ onMore }: { onMore: () => void }) {
  return (
    <button type="button" class="plain more" onClick={onMore}>
      Show more
    </button>
  );
}

function FindingList({ codebase_id }: { codebase_id: string }) {
  const [question, file_path, finding_type] = ['q', 'file', 'type'].map(filterOf) as [string, string, string];
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={hrefOf('findings')}>Findings</a>
        <span aria-hidden="true">/</span>
        <span>{codebase_id}</span>
      </nav>
      <PageHead title={codebase_id} />
      <FilterRow>
        <FilterText wide label="Ask" name="q" value={question} placeholder="searches by meaning" />
        <FilterText
          label="File"
          name="file"
          value={file_path}
          placeholder="exactly: src/main.ts"
          maxLength={1_000}
        />
        <FilterText label="Type" name="type" value={finding_type} placeholder="exactly: note" />
      </FilterRow>
      {question === '' ? (
        <Newest codebase_id={codebase_id} file_path={file_path} finding_type={finding_type} />
      ) : (
        <Nearest
          codebase_id={codebase_id}
          question={question}
          file_path={file_path}
          finding_type={finding_type}
        />
      )}
    </>
  );
}

interface Narrowed {
  codebase_id: string;
  file_path: string;
  finding_type: string;
}

function narrow({ file_path, finding_type }: Narrowed) {
  return {
    ...(file_path === '' ? {} : { file_path }),
    ...(finding_type === '' ? {} : { finding_type }),
  };
}

function Newest(asked: Narrowed) {
  const org_id = organization.value!.id;
  const { codebase_id } = asked;
  const list = usePagedList(
    JSON.stringify([org_id, asked]),
    async (cursor, signal) => {
      const { findings, total, next_cursor } = await call('GET /v1/findings/{codebase_id}', {
        params: { codebase_id },
        query: { org_id, limit: PAGE_ROWS, cursor, ...narrow(asked) },
        signal,
      });
      return { rows: findings, total, next_cursor };
    },
    { keyOf: ({ finding_id }) => finding_id, every_ms: EVERY_MS },
  );
  return (
    <Loaded from={list} lines={8}>
      {({ rows, has_more, head }) =>
        rows.length === 0 ? (
          <Empty title="No findings here." />
        ) : (
          <>
            <p class="faint">{formatNumber(head.total)} in all, newest first.</p>
            <ul class="findings" aria-label="Findings">
              {rows.map((finding) => (
                <FindingCard
                  key={finding.finding_id}
                  finding={finding}
                  codebase_id={codebase_id}
                  removed={list.refresh.bind(list)}
                />
              ))}
            </ul>
            {has_more ? <More onMore={list.more} /> : null}
          </>
        )
      }
    </Loaded>
  );
}

function Nearest({ question, ...asked }: Narrowed & { question: string }) {
  const org_id = organization.value!.id;
  const { codebase_id } = asked;
  const found = useResource(JSON.stringify([org_id, asked, question]), (signal) =>
    call('POST /v1/findings/{codebase_id}/recall', {
      params: { codebase_id },
      query: { org_id },
      body: { query: question, top_k: 20, ...narrow(asked) },
      signal,
    }),
  );
  return (
    <Loaded from={found} lines={8}>
      {({ findings }) =>
        findings.length === 0 ? (
          <Empty title="No finding is similar to the question." />
        ) : (
          <ul class="findings" aria-label="Findings">
            {findings.map((finding) => (
              <FindingCard
                key={finding.finding_id}
                finding={finding}
                codebase_id={codebase_id}
                score={finding.score}
                removed={() => found.refresh()}
              />
            ))}
          </ul>
        )
      }
    </Loaded>
  );
}

function FindingCard({
  finding,
  codebase_id,
  score,
  removed,
}: {
  finding: Finding;
  codebase_id: string;
  score?: number;
  removed: () => void;
}) {
  const { finding_id, content, file_path, finding_type, metadata, created_at } = finding;
  const remove = async () => {
    const sure = await ask({
      heading: 'Delete this finding?',
      text: 'No agent will recall it any more. This cannot be undone.',
      button: 'Delete',
      is_dangerous: true,
    });
    if (sure === null) return;
    const params = { codebase_id, finding_id };
    const query = { org_id: organization.value!.id };
    const isDone = await act(
      () => call('DELETE /v1/findings/{codebase_id}/{finding_id}', { params, query }),
      'The finding is deleted.',
    );
    if (isDone) removed();
  };
  const has_metadata = Object.keys(metadata).length > 0;
  return (
    <li class="panel finding">
      <p class="finding-head">
        <Badge>{finding_type}</Badge>
        {score === undefined ? null : <Badge tone="good">{formatShare(score)} near</Badge>}
        {file_path === '' ? null : <code>{file_path}</code>}
        <span class="faint">
          <Time at={created_at} />
        </span>
        {isAtLeast('member') ? (
          <button
            type="button"
            class="quiet small"
            onClick={remove}
            aria-label={`Delete: ${content.slice(0, 80)}`}
          >
            Delete
          </button>
        ) : null}
      </p>
      <LongText text={content} />
      {has_metadata ? (
        <details class="fold">
          <summary>Metadata</summary>
          <LongText text={JSON.stringify(metadata, null, 2)} kind="code" />
        </details>
      ) : null}
    </li>
  );
}
