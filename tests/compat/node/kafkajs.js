// Sessions of kafkajs: `node kafkajs.js ADDRESS SESSION`, with the session's input on stdin.
"use strict";

const { existsSync } = require("node:fs");

const {
  CompressionTypes,
  ConfigResourceTypes,
  Kafka,
  logLevel,
  PartitionAssigners,
} = require("kafkajs");
const { byPlace, refusal, start, toBytes, toText, until } = require("./session");

const kafka = (address) =>
  new Kafka({
    clientId: "session",
    brokers: address.split(","),
    logLevel: logLevel.NOTHING,
    // Long enough for another leader after one that was killed.
    retry: { retries: 200, maxRetryTime: 1000 },
  });

async function withAdmin(address, use) {
  const admin = kafka(address).admin();
  await admin.connect();
  try {
    return await use(admin);
  } finally {
    await admin.disconnect();
  }
}

async function configsOf(admin, topic) {
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }];
  const described = await admin.describeConfigs({ resources, includeSynonyms: false });
  const entries = described.resources[0].configEntries;
  return Object.fromEntries(entries.map((one) => [one.configName, one.configValue]));
}

async function partitionCount(admin, topic) {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  return topics[0].partitions.length;
}

const admin = (address) =>
  withAdmin(address, async (admin) => {
    const topic = "made";
    const made = {
      topic,
      numPartitions: 2,
      configEntries: [{ name: "retention.ms", value: "5000" }],
    };
    await admin.createTopics({ topics: [made] });
    const result = { topics: await admin.listTopics(), partitions: await partitionCount(admin, topic) };
    // Here alterConfigs states all settings at once: what is not named is reset.
    result.configs = await configsOf(admin, topic);
    const configEntries = [{ name: "segment.bytes", value: "2000" }];
    const changed = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries };
    await admin.alterConfigs({ resources: [changed] });
    result.altered = await configsOf(admin, topic);
    const wrong = { ...changed, configEntries: [{ name: "segment.bytes", value: "many" }] };
    result.refused = await refusal(admin.alterConfigs({ resources: [wrong] }));
    await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] });
    result.grown = await partitionCount(admin, topic);
    const cluster = await admin.describeCluster();
    result.cluster = { brokers: cluster.brokers.map((one) => one.nodeId), controller: cluster.controller };
    await admin.deleteTopics({ topics: [topic] });
    result.left = await admin.listTopics();
    return result;
  });

function headersOf(pairs) {
  const headers = {};
  for (const [name, value] of pairs) (headers[name] ??= []).push(toBytes(value));
  return headers;
}

const pairsOf = (headers) =>
  Object.entries(headers ?? {}).flatMap(([name, values]) =>
    [values].flat().map((value) => [name, toText(value)]),
  );

async function produce(address, { topic, codec, idempotent, records }) {
  const producer = kafka(address).producer({ idempotent: Boolean(idempotent), maxInFlightRequests: 1 });
  await producer.connect();
  const messages = records.map((one) => ({
    partition: one.partition,
    key: toBytes(one.key),
    value: toBytes(one.value),
    timestamp: String(one.timestamp),
    headers: headersOf(one.headers),
  }));
  const compression = CompressionTypes[(codec ?? "none").toUpperCase()];
  const answers = await producer.send({ topic, messages, compression, acks: -1 });
  await producer.disconnect();
  return answers.map((one) => [one.partition, Number(one.baseOffset)]);
}

async function consumer(address, groupId, topic) {
  const made = kafka(address).consumer({
    groupId,
    sessionTimeout: 6000,
    heartbeatInterval: 300,
    // It beats its heart between fetches only, and leaves after the last.
    maxWaitTimeInMs: 100,
    partitionAssigners: [PartitionAssigners.roundRobin],
  });
  const member = { made, seen: [], assigned: [] };
  made.on(made.events.GROUP_JOIN, ({ payload }) => {
    member.assigned = payload.memberAssignment[topic] ?? [];
  });
  made.on(made.events.REBALANCING, () => {
    member.assigned = [];
  });
  await made.connect();
  await made.subscribe({ topic, fromBeginning: true });
  await made.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      member.seen.push({
        partition,
        offset: Number(message.offset),
        key: toText(message.key),
        value: toText(message.value),
        timestamp: Number(message.timestamp),
        headers: pairsOf(message.headers),
      });
    },
  });
  return member;
}

async function consume(address, { topic, group, count, commit }) {
  const member = await consumer(address, group, topic);
  await until(`${count} records came`, () => member.seen.length >= count);
  if (commit) {
    const offsets = commit.map(([partition, offset]) => ({ topic, partition, offset: `${offset}` }));
    await member.made.commitOffsets(offsets);
  }
  await member.made.disconnect();
  return member.seen.sort(byPlace);
}

/** Sends and reads in a group until a file is there; then reads the rest, and commits. */
async function throughout(address, { topic, group, partitions, until: file }) {
  const member = await consumer(address, group, topic);
  const producer = kafka(address).producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const sent = [];
  for (let number = 0; !existsSync(file); number++) {
    const message = { partition: number % partitions, value: `${number}` };
    const [answer] = await producer.send({ topic, messages: [message], acks: -1 });
    sent.push([answer.partition, Number(answer.baseOffset), `${number}`]);
  }
  await producer.disconnect();
  const seen = () => new Set(member.seen.map((one) => `${one.partition}-${one.offset}`));
  await until("all came", () => {
    const known = seen();
    return sent.every(([partition, offset]) => known.has(`${partition}-${offset}`));
  });
  const ends = new Map();
  for (const one of member.seen) {
    ends.set(one.partition, Math.max(ends.get(one.partition) ?? 0, one.offset + 1));
  }
  await member.made.commitOffsets(
    [...ends].map(([partition, offset]) => ({ topic, partition, offset: `${offset}` })),
  );
  await member.made.disconnect();
  const read = member.seen.map((one) => [one.partition, one.offset, atob(one.value)]);
  return { sent, read };
}

async function share(address, { topic, group, partitions }) {
  const isShared = (...members) =>
    members.every((one) => one.assigned.length > 0) &&
    members.flatMap((one) => one.assigned).length === partitions;
  const assigned = (...members) => members.map((one) => [...one.assigned].sort());
  const first = await consumer(address, group, topic);
  await until("one has all", () => isShared(first));
  const alone = assigned(first);
  const second = await consumer(address, group, topic);
  await until("two share", () => isShared(first, second));
  const together = assigned(first, second);
  const described = await withAdmin(address, groupsOf(group));
  await second.made.disconnect();
  await until("one has all again", () => isShared(first));
  const after = assigned(first);
  await first.made.disconnect();
  return { alone, together, after, ...described };
}

const groupsOf = (group) => async (admin) => {
  const { groups } = await admin.listGroups();
  const [one] = (await admin.describeGroups([group])).groups;
  return {
    groups: groups.map((each) => each.groupId),
    state: one.state,
    protocol: one.protocolType,
    members: one.members.map((each) => each.clientId),
  };
};

const offsets = (address, { topic, group, timestamp, set }) =>
  withAdmin(address, async (admin) => {
    const places = (list) => list.map((one) => [one.partition, Number(one.offset)]).sort();
    const ends = await admin.fetchTopicOffsets(topic);
    const at = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp);
    const committed = async () =>
      places((await admin.fetchOffsets({ groupId: group, topics: [topic] }))[0].partitions);
    const result = {
      earliest: ends.map((one) => [one.partition, Number(one.low)]).sort(),
      latest: ends.map((one) => [one.partition, Number(one.high)]).sort(),
      at: places(at),
      committed: await committed(),
    };
    const partitions = set.map(([partition, offset]) => ({ partition, offset: String(offset) }));
    await admin.setOffsets({ groupId: group, topic, partitions });
    result.set = await committed();
    await admin.deleteGroups([group]);
    result.groups = (await admin.listGroups()).groups.map((one) => one.groupId);
    await admin.deleteTopicRecords({ topic, partitions });
    result.low = (await admin.fetchTopicOffsets(topic))
      .map((one) => [one.partition, Number(one.low)])
      .sort();
    return result;
  });

/** Comes in as the settings say, sends and reads what it may; or which error kept it out. */
async function secured(address, { settings, topic, hidden, group, value }) {
  const { token, ...rest } = settings;
  if (token) rest.sasl = { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: token }) };
  const client = new Kafka({
    clientId: "session",
    brokers: [address],
    logLevel: logLevel.NOTHING,
    retry: { retries: 0 },
    ...rest,
  });
  const producer = client.producer();
  try {
    await producer.connect();
    await producer.send({ topic, messages: [{ value }] });
  } catch (error) {
    return { failure: (error.cause ?? error).name };
  }
  let refused = "";
  try {
    await producer.send({ topic: hidden, messages: [{ value }] });
  } catch (error) {
    refused = (error.cause ?? error).type;
  }
  await producer.disconnect();
  const reader = client.consumer({ groupId: group, maxWaitTimeInMs: 100 });
  await reader.connect();
  await reader.subscribe({ topic, fromBeginning: true });
  const found = [];
  await reader.run({ eachMessage: async ({ message }) => found.push(message.value.toString()) });
  await until("the value came", () => found.includes(value));
  await reader.disconnect();
  return { refused, found };
}

start({ admin, consume, offsets, produce, secured, share, throughout });
