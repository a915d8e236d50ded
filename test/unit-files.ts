/** Which test files make up the projects `unit` and `shared` (vitest.config.ts). Vitest's own process and a house test's. */

/**
 * Files that neither listen, nor start a thread or a process, nor change anything outside themselves. Globs from the
 * root.
 */
export const UNIT = [
  'test/domain/**/*.test.ts',
  'test/contract/**/*.test.ts',
  'test/client/difficulty.test.ts',
  'test/std/!(file-place|loading-threads|own-thread|shared-locks|std|usable-cores|zstd).test.ts',
  'test/integrations/agent-steps.test.ts',
  'test/captures/**/*.test.ts',
  'test/bench/held-back-judges.test.ts',
  'test/teaching/**/*.test.ts',
  'test/providers/**/*.test.ts',
  'test/student/model/**/*.test.ts',
  'test/gateway/{known-headers,run-labels}.test.ts',
  'test/gateway/upstream/response-parser.test.ts',
  'test/http/{allowed-hosts,recorded-cases}.test.ts',
  'test/actors/{live-exchange,live-hub,shared-hub,rate-bucket,run,usage-meter,capture-batch,fault-history}.test.ts',
  'test/api/{clock-jumps,declared-bounds,dispatch,experiments,patterns,retrieve,stream-credentials}.test.ts',
  'test/cli/{banner,inspect}.test.ts',
  'test/label/labelled-target.test.ts',
  'test/native/{byte,vector}-engine.test.ts',
  'test/runtime/{ask-owner,claims,host,recorder}.test.ts',
  'test/otel/conventions.test.ts',
  'test/redaction/key-shapes.test.ts',
  'test/search/{embedder-config,embedder-features,word-tokens}.test.ts',
  'test/sim/simulation.test.ts',
  'test/storage/{accounts-usage,capture-record,packing-share,run-reads,stream-secrets,text-words}.test.ts',
  'test/student/serving/{request-rules,service-step,tool-schemas,step-handler}.test.ts',
  'test/house/{bench-results,clocks,config,docs,errors,exports,import-direction,permissions}.test.ts',
  'test/house/{test-rules,threads,unit-tests}.test.ts',
] as const;

/**
 * Files that listen and write files, but start no process, change nothing of the process they run in, and leave nothing
 * running. They run one after the other in the same processes, which saves half a second of processor time for each.
 */
export const SHARED = [
  'test/actors/{capture-process,capture-writer,pattern-index,pattern-maker,writer-report}.test.ts',
  'test/api/{billing,control-plane-sign-in,findings,list-page,live-readers,mcp,metrics,openapi,otel,pipeline}.test.ts',
  'test/api/{project-deletion,server,stream-tickets,tenant-isolation,traces}.test.ts',
  'test/{auth,billing}/*.test.ts',
  'test/cli/{distill-report,inspect-capture}.test.ts',
  'test/client/{api-client,circuit,knowledge,live-stream,sender,shared-cases,understudy,wire-json}.test.ts',
  'test/clients/{anthropic-student,anthropic,bedrock,gemini,openai}.test.ts',
  'test/dashboard/core.test.ts',
  'test/fixtures/raw-sockets.test.ts',
  'test/gateway/{capture-queue,early-answer-capture,early-answer,end-cause,hostile-upstream,known-credentials}.test.ts',
  'test/gateway/{long-exchange,packing-stats,slow-writes,tee,transparency,tunnel-cases,tunnel}.test.ts',
  'test/gateway/{relegation,relegation-audit,relegation-explained,relegation-service,relegation-sticky}.test.ts',
  'test/gateway/{unsendable-request,upstream-pool,upstream/failed-writes}.test.ts',
  'test/http/{blocked-replies,body-pieces,event-stream,open-bodies,port,refusals,unknown-fields}.test.ts',
  'test/mcp/hostile-messages.test.ts',
  'test/otel/span-export.test.ts',
  'test/proxy/student.test.ts',
  'test/redaction/harmless-names.test.ts',
  'test/runtime/{moving,server-host}.test.ts',
  'test/search/{embedder-model,embedder-remote,embedder,former-embedders,graph-folder,merged-runs,vector-index}.test.ts',
  'test/std/{file-place,zstd}.test.ts',
  'test/storage/{accounts,base-cache,checkpoint,data-key,digest-cache,erasure,masked-labels,no-room,rekey}.test.ts',
  'test/storage/{retention-clock,row-listing,run-words,sealed-capture,sealed-stores,tables,used-pages,writer-claim}.test.ts',
  'test/storage/capture-{attachments,expiry,forms,grouping,index,log,order,packing,secrets,sessions,told-shape}.test.ts',
  'test/student/{day-ledger,orders,student-report}.test.ts',
  'test/student/serving/{answer-bytes,failure-words,openai-wires,served-runs,student-service}.test.ts',
  'test/threads/{capture-list,capture-reader}.test.ts',
] as const;
